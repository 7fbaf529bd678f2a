/*
 * Sends one POST request and reads its answer: the outgoing side of the server. It follows no redirects, uses no proxy,
 * and keeps no connection. The time limit covers everything, from the lookup to the last byte of the answer.
 *
 * The head of an answer decides. The body is read so that the receiver can finish its work, up to `maxAnswerBytes`. If
 * the body does not end in time, it is cut off and the answer is still valid, because sending the message again would
 * duplicate it.
 */
import * as http from 'node:http'
import * as https from 'node:https'
import type { SecureContext } from 'node:tls'
import { createLookup } from './lookup.js'

/** The message to send. */
export interface PostOptions {
  headers: Record<string, string>
  body: string
  limitMs: number
  /**
   * Whether the process may end during the request. A lookup in progress still keeps it running; `signal` ends that.
   */
  isIdle?: boolean
  /** The authorities to trust. Default: those of Node. */
  secureContext?: SecureContext | undefined
  signal: AbortSignal
}

/**
 * The result of a request. `text` is the body if it ended in time and within the limit, otherwise null. `retryAfterMs` is
 * the time that the receiver asks to wait before the next request (RFC 9110 §10.2.3).
 */
export type Posted =
  | { outcome: 'answered'; status: number; text: string | null; retryAfterMs?: number }
  | { outcome: 'timeout' }
  /** `code`: the error code of the system, of TLS, or of the parser. `message` replaces it if nothing was sent. */
  | { outcome: 'network'; code: string; message?: string }

const maxAnswerBytes = 64 * 1024

/** Parses the URL of a receiver. Returns null if it is not an HTTP URL. */
export function parseHttpUrl(text: string): URL | null {
  try {
    const url = new URL(text)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url : null
  } catch {
    return null
  }
}

/** Sends `body` as JSON. Rejects only with the signal's reason. */
export function post(
  url: URL,
  { headers, body, limitMs, isIdle = false, secureContext, signal }: PostOptions
): Promise<Posted> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return void reject(signal.reason)
    const length = String(Buffer.byteLength(body))
    const { lookup, cancel } = createLookup()
    const request = (url.protocol === 'https:' ? https : http).request(url, {
      method: 'POST',
      agent: false,
      ...(secureContext && { secureContext }),
      lookup,
      headers: { 'content-type': 'application/json', 'content-length': length, connection: 'close', ...headers }
    })
    let answer: Posted | undefined

    const end = (posted: Posted): void => {
      clearTimeout(limit)
      signal.removeEventListener('abort', abort)
      resolve(posted)
      cancel()
      request.destroy()
    }
    const abort = (): void => {
      clearTimeout(limit)
      reject(signal.reason)
      cancel()
      request.destroy()
    }
    const limit = setTimeout(() => end(answer ?? { outcome: 'timeout' }), limitMs)
    signal.addEventListener('abort', abort, { once: true })
    if (isIdle) {
      limit.unref()
      request.on('socket', socket => socket.unref())
    }

    request.on('error', (error: NodeJS.ErrnoException) =>
      end(answer ?? { outcome: 'network', code: error.code ?? 'UNKNOWN' })
    )
    request.on('close', () => end(answer ?? { outcome: 'network', code: 'ECONNRESET' }))
    request.on('response', response => {
      const status = response.statusCode as number
      const chunks: Buffer[] = []
      let bytes = 0
      const known = { outcome: 'answered', status, ...retryAfter(response.headers['retry-after']) } as const
      answer = { ...known, text: null }
      response.on('error', () => end(answer as Posted))
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        bytes += chunk.length
        if (bytes > maxAnswerBytes) end(answer as Posted)
      })
      response.on('end', () => end({ ...known, text: Buffer.concat(chunks).toString('utf8') }))
    })
    request.end(body)
  })
}

/** Reads seconds, or a date, which is compared with the clock of this machine. */
function retryAfter(text = ''): { retryAfterMs?: number } {
  const ms = /^\s*\d{1,9}\s*$/.test(text) ? Number(text) * 1000 : Date.parse(text) - Date.now()
  return Number.isNaN(ms) ? {} : { retryAfterMs: Math.max(0, ms) }
}
