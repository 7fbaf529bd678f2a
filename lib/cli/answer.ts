import { Refusal, type RefusalKind } from '../base/refusal.js'
import type { Answer } from './client.js'

const maxRefusalBytes = 64 * 1024

const kinds: Record<number, RefusalKind> = {
  400: 'invalid',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method',
  409: 'conflict',
  412: 'precondition',
  413: 'too_large',
  415: 'unsupported_type',
  429: 'too_many',
  501: 'unsupported'
}

/** Who was asked, and with which token. */
export interface Asked {
  address: string
  tokenFrom: string | null
}

/** The server's own sentence where the answer is svc's; else what a proxy, or a stranger, must have meant. */
export async function refusalOf(answer: Answer, { address, tokenFrom }: Asked): Promise<Refusal> {
  const status = answer.statusCode as number
  const text = await readText(answer, maxRefusalBytes).catch(() => '')
  // The rest of the request may be unsent, and nobody wants it: the connection is of no more use.
  answer.socket?.destroy()
  const value = parseJson(text) as { error?: unknown; code?: unknown } | null | undefined
  const kind = kinds[status] ?? 'unavailable'
  if (value != null && typeof value.error === 'string') {
    const retryAfterSeconds = Number(answer.headers['retry-after']) || undefined
    const code = typeof value.code === 'string' ? value.code : `http_${status}`
    const sentence =
      status === 401 && tokenFrom !== null ? `${value.error} (the token came from ${tokenFrom})` : value.error
    return new Refusal(kind, code, sentence, retryAfterSeconds === undefined ? {} : { retryAfterSeconds })
  }
  const location = answer.headers.location
  if (status >= 300 && status < 400 && location !== undefined) {
    return new Refusal(
      'invalid',
      'redirected',
      `${address} sends on to "${location}": use that as the server's address`
    )
  }
  if (status === 400 && /plain HTTP request|HTTP request to an HTTPS/i.test(text)) {
    const secure = address.replace(/^http:/, 'https:')
    return new Refusal('invalid', 'needs_https', `${address} expects TLS on that port: use "${secure}" as the server's address`)
  }
  if (status === 401) {
    const advice = 'let the proxy pass requests below /api without its own login: svc checks its tokens itself'
    return new Refusal(kind, 'proxy_login', `A proxy before ${address} asks for its own user name and password (401): ${advice}`)
  }
  if (status === 413) {
    const advice = 'raise its limit (nginx: client_max_body_size 0)'
    return new Refusal(kind, 'too_large', `A proxy before ${address} refuses uploads of that size (413): ${advice}`)
  }
  if (status === 407)
    return new Refusal('unauthorized', 'proxy_auth', 'The proxy wants a user name and a password in its address')
  if (status >= 502 && status <= 504) {
    return new Refusal(
      kind,
      `http_${status}`,
      `A proxy before ${address} answered ${status}: it gets no answer from svc. Is the svc server behind it running, and its port right?`
    )
  }
  return notSvc(answer, address)
}

/** For an answer that no svc server gives: most often another program, or a path without the prefix. */
export function notSvc(answer: Answer, address: string): Refusal {
  // The rest of the request may be unsent, and nobody wants it: the connection is of no more use.
  answer.socket?.destroy()
  const type = (answer.headers['content-type'] ?? 'no content type').split(';', 1)[0]
  return new Refusal(
    'unavailable',
    'not_svc',
    `${address} is not an svc server: it answered ${answer.statusCode} with ${type} (is the prefix part of the address?)`
  )
}

/** The whole body as text. Refuses one that is over `limitBytes`. */
export async function readText(answer: Answer, limitBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > limitBytes)
      throw new Refusal('too_large', 'answer_too_large', `The answer is over ${limitBytes} bytes long`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Undefined where `text` is no JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
