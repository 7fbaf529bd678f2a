/*
 * One HTTP request that tests whether a service works. It follows no redirects, reads at most 64 KiB of the body, keeps
 * no connection, and ends after its time limit whatever the server does.
 */
import * as http from 'node:http'
import * as https from 'node:https'
import { isIP } from 'node:net'
import type { SecureContext } from 'node:tls'
import { reasonOf } from '../base/errors.js'
import { reach, Unreachable, type ReachOptions } from './reach.js'

/** A request to send. */
export interface HttpProbe extends ReachOptions {
  url: string
  header?: Readonly<Record<string, string>>
  /** Whether the body is read. */
  readsBody: boolean
  timeoutMs: number
  /** The authorities to trust. Default: those of Node. */
  secureContext?: SecureContext | undefined
  signal: AbortSignal
}

/** The answer to a request, or the reason why there is none. */
export type HttpAnswer = { status: number; body: string } | { error: string }

/** Maximum number of bytes of a body that are read. */
export const maxBodyBytes = 64 * 1024

/** Sends a GET request. Rejects only with the signal's reason. */
export async function probeHttp(probe: HttpProbe): Promise<HttpAnswer> {
  const url = new URL(probe.url)
  try {
    const { address, family, isLoopback } = await reach(url.hostname, probe)
    probe.signal.throwIfAborted()
    return await request(url, probe, { address, family, isLoopback })
  } catch (error) {
    if (error instanceof Unreachable) return { error: error.message }
    throw error
  }
}

function request(
  url: URL,
  { header, readsBody, timeoutMs, secureContext, signal }: HttpProbe,
  { address, family, isLoopback }: { address: string; family: 4 | 6; isLoopback: boolean }
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const name = url.hostname.replace(/^\[(.*)\]$/, '$1')
    const isSecure = url.protocol === 'https:'
    const call = (isSecure ? https : http).request({
      method: 'GET',
      host: address,
      family,
      port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port),
      path: `${url.pathname}${url.search}`,
      agent: false,
      setHost: false,
      headers: { host: url.host, 'user-agent': 'svc-gate', accept: '*/*', connection: 'close', ...header },
      // A service on this machine often has a certificate for its public name, or one of its own.
      ...(secureContext && { secureContext }),
      ...(isSecure && { rejectUnauthorized: !isLoopback, ...(isIP(name) === 0 && { servername: name }) })
    })
    let hasEnded = false
    const end = (settle: () => void): void => {
      if (hasEnded) return
      hasEnded = true
      clearTimeout(limit)
      signal.removeEventListener('abort', abort)
      settle()
      call.destroy()
    }
    const abort = (): void => end(() => reject(signal.reason as Error))
    const limit = setTimeout(() => end(() => resolve({ error: `no answer within ${timeoutMs / 1000} s` })), timeoutMs)
    signal.addEventListener('abort', abort, { once: true })
    call.on('error', (error: NodeJS.ErrnoException) => end(() => resolve({ error: reasonOf(error) })))
    call.on('close', () => end(() => resolve({ error: 'the connection was closed' })))
    call.on('response', response => {
      const status = response.statusCode as number
      if (!readsBody) return end(() => resolve({ status, body: '' }))
      const pieces: Buffer[] = []
      let bytes = 0
      const finish = (): void => {
        const body = Buffer.concat(pieces).subarray(0, maxBodyBytes).toString('utf8')
        end(() => resolve({ status, body }))
      }
      response.on('data', (piece: Buffer) => {
        pieces.push(piece)
        bytes += piece.length
        if (bytes >= maxBodyBytes) finish()
      })
      response.on('end', finish)
      response.on('error', error => end(() => resolve({ error: reasonOf(error) })))
    })
    call.end()
  })
}
