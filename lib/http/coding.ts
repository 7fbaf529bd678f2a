import type { IncomingHttpHeaders } from 'node:http'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { isMeasurable } from './fetch-site.js'
import type { Whole } from './reply.js'

export type Coding = 'br' | 'gzip' | 'identity'

/** RFC 9110 §12.5.3, as far as it matters here: the best of what is accepted, `q=0` being a refusal. */
export function chooseCoding(accept: string | string[] | undefined): Coding {
  const text = String(accept ?? '')
  return accepts(text, 'br') ? 'br' : accepts(text, 'gzip') ? 'gzip' : 'identity'
}

function accepts(text: string, coding: string): boolean {
  const found = new RegExp(`(?:^|,)\\s*${coding}\\s*(?:;\\s*q=([\\d.]+))?\\s*(?:,|$)`, 'i').exec(text)
  return found !== null && Number(found[1] ?? 1) > 0
}

/** Below it, the saving does not pay for the header. */
export const minCompressBytes = 1024
/** Larger answers are sent as they are: compressing one would hold a thread for a tenth of a second. */
const maxCompressBytes = 4 * 1024 * 1024
/** Half the time of the default, and a tenth more bytes (a list of 100 deployments). */
const level = 4
const compress = promisify(gzip)

/**
 * Whether an answer of JSON is worth compressing, its client can read it, and nobody else can measure it. A text that
 * contains a secret and something that an attacker chose must not be compressed together if the attacker can make a victim
 * ask for it and see the length (BREACH). A bearer cannot be sent by a page of another origin. A session cookie can: by
 * pages of another port or another name of the same domain. Such a request is answered uncompressed unless it proves that
 * the panel sent it (fetch-site.ts).
 */
export function wantsGzip(headers: IncomingHttpHeaders, bytes: number): boolean {
  const accepted = headers['accept-encoding']
  if (bytes < minCompressBytes || bytes > maxCompressBytes || accepted === undefined || isMeasurable(headers)) return false
  return accepts(String(accepted), 'gzip')
}

/** The answer in gzip, made in a thread. */
export async function gzipped({ status, headers, body }: Whole): Promise<Whole> {
  const small = await compress(body, { level })
  return { status, headers: { ...headers, 'content-encoding': 'gzip', 'content-length': String(small.length) }, body: small }
}
