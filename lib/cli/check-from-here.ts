import { pause } from '../base/pause.js'
import { messageOf } from '../base/errors.js'
import { probeHttp } from '../probe/probe.js'
import type { Api } from './client/api.js'

/** A deployment that waits to be confirmed. */
export interface Waiting {
  deployId: string
  /** When the earlier files are put back. */
  until: string
}

/** How a deployment is checked and confirmed. */
export interface CheckOptions {
  api: Pick<Api, 'confirm'>
  url: URL
  note(line: string): void
  signal: AbortSignal
}

const intervalMs = 1_000
const attemptMs = 5_000

/**
 * Confirms a deployment as soon as `url` answers with a 2xx status from here. Does nothing more when the window has
 * ended: the server then puts the earlier files back. Never rejects.
 */
export async function checkFromHere(
  { deployId, until }: Waiting,
  { api, url, note, signal }: CheckOptions
): Promise<void> {
  const endMs = performance.now() + Date.parse(until) - Date.now()
  let last = ''
  try {
    while (performance.now() < endMs) {
      const probe = { url: url.href, hosts: [url.hostname], readsBody: false, timeoutMs: attemptMs, signal }
      const answer = await probeHttp(probe)
      const isGood = 'status' in answer && answer.status >= 200 && answer.status <= 299
      const message = 'status' in answer ? String(answer.status) : answer.error
      if (message !== last) note(`${url.href}: ${message}`)
      last = message
      if (isGood) {
        await api.confirm(deployId)
        return
      }
      await pause(intervalMs, signal)
    }
  } catch (error) {
    if (!signal.aborted) note(`Cannot confirm the deployment: ${messageOf(error)}`)
  }
}
