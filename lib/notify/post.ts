/*
 * One POST and its answer: the outgoing side of the server. No redirect is followed, no proxy is asked, no connection
 * is kept. The limit of time holds for everything, from the look-up of the name to the last byte of the answer's body.
 *
 * The head of an answer decides. Its body is read so that the receiver can finish what it is doing, at most
 * `maxAnswerBytes` of it; one that does not end in time is cut off, and the answer counts all the same: sending the
 * message again would double it.
 */
import * as http from 'node:http'
import * as https from 'node:https'
import { createLookup } from './lookup.js'

export interface PostOptions {
  headers: Record<string, string>
  body: string
  limitMs: number
  /** Nothing of it keeps the process from ending, but a look-up of the name under way: `signal` ends that. */
  isIdle?: boolean
  signal: AbortSignal
}

/** What came of it. `text`: the body, where it ended in time and within the limit; else null. */
export type Posted =
  | { outcome: 'answered'; status: number; text: string | null }
  | { outcome: 'timeout' }
  /** `code`: the system's, TLS's or the parser's word for it. */
  | { outcome: 'network'; code: string }

const maxAnswerBytes = 64 * 1024

/** An address that can be sent to; null: it is none. */
export function parseHttpUrl(text: string): URL | null {
  try {
    const url = new URL(text)
    return url.protocol === 'http:' || url.protocol === 'https:' ? url : null
  } catch {
    return null
  }
}

/** Sends `body` as JSON. Rejects with the signal's reason, and with nothing else. */
export function post(url: URL, { headers, body, limitMs, isIdle = false, signal }: PostOptions): Promise<Posted> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return void reject(signal.reason)
    const length = String(Buffer.byteLength(body))
    const { lookup, cancel } = createLookup()
    const request = (url.protocol === 'https:' ? https : http).request(url, {
      method: 'POST',
      agent: false,
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

    request.on('error', (error: NodeJS.ErrnoException) => end(answer ?? { outcome: 'network', code: error.code ?? 'UNKNOWN' }))
    request.on('close', () => end(answer ?? { outcome: 'network', code: 'ECONNRESET' }))
    request.on('response', response => {
      const status = response.statusCode as number
      const chunks: Buffer[] = []
      let bytes = 0
      answer = { outcome: 'answered', status, text: null }
      response.on('error', () => end(answer as Posted))
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        bytes += chunk.length
        if (bytes > maxAnswerBytes) end(answer as Posted)
      })
      response.on('end', () => end({ outcome: 'answered', status, text: Buffer.concat(chunks).toString('utf8') }))
    })
    request.end(body)
  })
}
