/*
 * Telling who started the server that it is ready: systemd, and whoever waits for a file.
 *
 * systemd's protocol (sd_notify(3)) is a datagram to the Unix socket that NOTIFY_SOCKET names. Node has no Unix sockets
 * for datagrams, so systemd's own program sends it, which is there wherever systemd is. It is another process than the
 * server: the unit needs NotifyAccess=all, or its word does not count.
 */
import { constants } from 'node:fs'
import { access, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { Refusal } from '../base/refusal.js'
import { replaceFile } from '../config/replace-file.js'
import type { Context } from './command.js'

const notifyLimitMs = 10_000
const readyFileMode = 0o644

export interface Readiness {
  /** Everything is answered, at this address. */
  ready(url: string): Promise<void>
  /** Settings are being read again; `ready` comes when that is done. */
  reloading(): Promise<void>
  stopping(): Promise<void>
}

/**
 * `readyFile`, if any, holds the address while the server is ready; one that an earlier server left is removed. Refuses
 * one that cannot be written. What systemd cannot be told is warned about: it would wait, and then kill the server.
 */
export async function createReadiness(readyFile: string | undefined, { env, cwd, output }: Context): Promise<Readiness> {
  if (readyFile !== undefined) await prepare(readyFile)

  async function notify(...words: string[]): Promise<void> {
    const { NOTIFY_SOCKET } = env
    if (!NOTIFY_SOCKET) return
    const [{ runProcess }, { inheritedEnvironment }] = await Promise.all([import('../proc/run.js'), import('../proc/environment.js')])
    const said: string[] = []
    const command = ['systemd-notify', ...words]
    const ended = await runProcess({ command, cwd, env: { ...inheritedEnvironment(env), NOTIFY_SOCKET }, timeoutMs: notifyLimitMs, onLine: line => void said.push(line) })
    if (ended.exitCode === 0) return
    const why = ended.error ?? (said.join(' ') || `it ended with ${ended.signal ?? ended.exitCode}`)
    output.warn(`systemd was not told "${words[0]}": systemd-notify failed: ${why}. Use Type=exec, or --ready-file, where there is none`)
  }

  return {
    async ready(url) {
      if (readyFile !== undefined) {
        await replaceFile(readyFile, `${url}/\n`, readyFileMode).catch((error: Error) =>
          output.warn(`The ready file "${readyFile}" could not be written: ${error.message}`))
      }
      await notify('READY=1', `STATUS=Listens on ${url}/`)
    },
    // The time is what Type=notify-reload wants to see; `hrtime` is the same clock.
    reloading: () => notify('RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`),
    async stopping() {
      if (readyFile !== undefined) await rm(readyFile, { force: true }).catch(() => {})
      await notify('STOPPING=1', 'STATUS=Waits for running deployments')
    }
  }
}

async function prepare(readyFile: string): Promise<void> {
  try {
    await rm(readyFile, { force: true })
    await access(dirname(readyFile), constants.W_OK)
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    const why = code === 'ENOENT' ? `there is no directory "${dirname(readyFile)}"` : message
    throw new Refusal('invalid', 'invalid_path', `--ready-file "${readyFile}" cannot be written: ${why}`, { field: '--ready-file', cause })
  }
}
