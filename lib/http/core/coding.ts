import type { IncomingHttpHeaders } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { isMeasurable } from './fetch-site.js'

/** Content codings that the server can send. */
export type Coding = 'br' | 'gzip' | 'identity'

/** Chooses the best accepted coding (the part of RFC 9110 §12.5.3 that is needed here). `q=0` excludes a coding. */
export function chooseCoding(accept: string | string[] | undefined): Coding {
  const text = String(accept ?? '')
  return accepts(text, 'br') ? 'br' : accepts(text, 'gzip') ? 'gzip' : 'identity'
}

function accepts(text: string, coding: string): boolean {
  return text.split(',').some(part => {
    const [name, ...parameters] = part.split(';').map(each => each.trim().toLowerCase())
    const weight = parameters.find(each => each.startsWith('q='))?.slice('q='.length)
    return name === coding && Number(weight ?? 1) > 0
  })
}

/** Below this size the saving is smaller than the additional header. */
export const minCompressBytes = 1024
/** Larger answers are sent uncompressed: compressing one would occupy a thread for a tenth of a second. */
const maxCompressBytes = 4 * 1024 * 1024
/** Takes half the time of the default level, for a tenth more bytes (a list of 100 deployments). */
const level = 4
const compress = promisify(gzip)

/**
 * Whether a JSON answer is worth compressing, its client accepts gzip, and no attacker can measure it. A text with both
 * a secret and something that an attacker chose must not be compressed if the attacker can make a victim request it and
 * can see its length (BREACH). Pages of other origins cannot send a bearer token. But they can send a session cookie,
 * if they are on another port or another name of the same domain. So a request with a cookie is compressed only if it
 * proves that the panel sent it (fetch-site.ts).
 */
export function wantsGzip(headers: IncomingHttpHeaders, bytes: number): boolean {
  const accepted = headers['accept-encoding']
  if (bytes < minCompressBytes || bytes > maxCompressBytes || accepted === undefined || isMeasurable(headers))
    return false
  return accepts(String(accepted), 'gzip')
}

/** Compresses a body with gzip, in a thread of the pool. */
export function gzipped(body: string | Uint8Array): Promise<Buffer> {
  return compress(body, { level })
}
