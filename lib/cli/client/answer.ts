import type { IncomingMessage } from 'node:http'
import { Refusal, type RefusalKind } from '../../base/refusal.js'

/** The answer to a request, its body unread. */
export type Answer = IncomingMessage

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

/** The server that was asked, and the source of the token that was sent. */
export interface Asked {
  address: string
  tokenFrom: string | null
}

/**
 * Returns the refusal for an answer that is not a success. If svc sent the answer, this is its own sentence. Otherwise
 * a proxy or another program sent it, and the sentence explains the likely cause.
 */
export async function refusalOf(answer: Answer, { address, tokenFrom }: Asked): Promise<Refusal> {
  const status = answer.statusCode as number
  const text = await readText(answer, maxRefusalBytes).catch(() => '')
  // Part of the request may be unsent and is not wanted, so the connection cannot be used again.
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
      `${address} redirects to "${location}". Use that as the server's address`
    )
  }
  if (status === 400 && /plain HTTP request|HTTP request to an HTTPS/i.test(text)) {
    const secure = address.replace(/^http:/, 'https:')
    return new Refusal(
      'invalid',
      'needs_https',
      `${address} expects TLS on that port. Use "${secure}" as the server's address`
    )
  }
  if (status === 401) {
    const advice = 'Turn off the login of the proxy for paths below /api: svc checks its own tokens there'
    return new Refusal(
      kind,
      'proxy_login',
      `A proxy in front of ${address} requires its own user name and password (401). ${advice}`
    )
  }
  if (status === 413) {
    const advice = 'Raise its limit (nginx: client_max_body_size 0)'
    return new Refusal(
      kind,
      'too_large',
      `A proxy in front of ${address} refuses uploads of this size (413). ${advice}`
    )
  }
  if (status === 407)
    return new Refusal(
      'unauthorized',
      'proxy_auth',
      'The proxy requires authentication (407). Add a user name and a password to its address'
    )
  if (status >= 502 && status <= 504) {
    return new Refusal(
      kind,
      `http_${status}`,
      `A proxy in front of ${address} answered ${status}: it cannot reach svc. Check that the svc server is running, and the port in the proxy's configuration`
    )
  }
  return notSvc(answer, address)
}

/**
 * Returns the refusal for an answer that svc never sends. Usual causes: another program, or an address without prefix.
 */
export function notSvc(answer: Answer, address: string): Refusal {
  // Part of the request may be unsent and is not wanted, so the connection cannot be used again.
  answer.socket?.destroy()
  const type = (answer.headers['content-type'] ?? 'no content type').split(';', 1)[0]
  return new Refusal(
    'unavailable',
    'not_svc',
    `${address} is not an svc server: it answered ${answer.statusCode} with ${type}. Check the address, including its path prefix`
  )
}

/** Reads the whole body as text. Refuses (`too_large`) a body of more than `limitBytes`. */
export async function readText(answer: Answer, limitBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > limitBytes)
      throw new Refusal('too_large', 'answer_too_large', `The answer of the server is larger than ${limitBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Parses JSON. Returns undefined if `text` is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
