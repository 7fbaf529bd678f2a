import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
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

/** Whether an answer of JSON is worth compressing, and its client can read it. */
export function wantsGzip(acceptEncoding: string | string[] | undefined, bytes: number): boolean {
  return bytes >= minCompressBytes && bytes <= maxCompressBytes && acceptEncoding !== undefined && accepts(String(acceptEncoding), 'gzip')
}

/**
 * The answer in gzip, made in a thread. What is secret and what an attacker chose may be compressed together, which leaks
 * through the length to an attacker who can make a victim ask and see the length (BREACH). Nobody can make a browser ask here:
 * answers with secrets need a bearer that no page of another origin can send, and these routes have no CORS.
 */
export async function gzipped({ status, headers, body }: Whole): Promise<Whole> {
  const small = await compress(body, { level })
  return { status, headers: { ...headers, 'content-encoding': 'gzip', 'content-length': String(small.length) }, body: small }
}
