import { createHmac } from 'node:crypto'
import type { NotificationKind } from '../model/notification-target.js'

/** A message ready to be sent. */
export interface Outgoing {
  url: URL
  body: string
  headers: Record<string, string>
}

interface Unsigned {
  /** The id, which is the same for every attempt. */
  id: string
  /** Time of this attempt. */
  atMs: number
  url: URL
  payload: unknown
  /** Empty means not signed. */
  secret: string
}

/** Whether messages of a kind are signed with a secret. For the other kinds, the address itself is secret. */
export function takesSecret(kind: NotificationKind): boolean {
  return kind === 'generic' || kind in signers
}

/** How chat services expect the signature: DingTalk in the address, Feishu in the body. */
const signers: Partial<Record<NotificationKind, (message: Unsigned) => Pick<Unsigned, 'url' | 'payload'>>> = {
  dingtalk({ url, payload, secret, atMs }) {
    const signed = new URL(url)
    signed.searchParams.set('timestamp', String(atMs))
    signed.searchParams.set('sign', createHmac('sha256', secret).update(`${atMs}\n${secret}`).digest('base64'))
    return { url: signed, payload }
  },
  feishu({ url, payload, secret, atMs }) {
    const timestamp = String(Math.floor(atMs / 1000))
    // As documented: the text is the key, and the signed data is empty.
    const sign = createHmac('sha256', `${timestamp}\n${secret}`).digest('base64')
    return { url, payload: { timestamp, sign, ...(payload as object) } }
  }
}

/**
 * Signs a message for its kind. Also adds the headers of the Standard Webhooks convention, which other kinds ignore.
 */
export function signed(kind: NotificationKind, message: Unsigned): Outgoing {
  const { url, payload } = message.secret === '' ? message : (signers[kind]?.(message) ?? message)
  const body = JSON.stringify(payload)
  return { url, body, headers: webhookHeaders({ ...message, body }) }
}

/**
 * Returns the headers of the Standard Webhooks convention: the id of the message, which all attempts share, and the
 * time of this attempt in seconds. With a secret, there is also the signature of "id.timestamp.body".
 */
export function webhookHeaders(message: {
  id: string
  atMs: number
  body: string
  secret: string
}): Record<string, string> {
  const { id, atMs, body, secret } = message
  const timestamp = String(Math.floor(atMs / 1000))
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp }
  if (secret === '') return headers
  const signature = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { ...headers, 'webhook-signature': `v1,${signature}` }
}

const prefix = 'whsec_'

/** Returns the key of a secret: base64 after the convention's prefix, otherwise the text itself (decisions §8). */
function keyOf(secret: string): Buffer {
  return secret.startsWith(prefix) ? Buffer.from(secret.slice(prefix.length), 'base64') : Buffer.from(secret, 'utf8')
}
