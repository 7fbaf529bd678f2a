import { createHmac } from 'node:crypto'
import type { NotificationKind } from '../model/notification-target.js'

/** A message as it goes out. */
export interface Outgoing {
  url: URL
  body: string
  headers: Record<string, string>
}

interface Unsigned {
  /** Every attempt has the same. */
  id: string
  /** Of this attempt. */
  atMs: number
  url: URL
  payload: unknown
  /** Empty: not signed. */
  secret: string
}

/** Whether messages of a kind are signed with a secret; the addresses of the others are their secrets. */
export function takesSecret(kind: NotificationKind): boolean {
  return kind === 'generic' || kind in signers
}

/** How a chat service wants it: DingTalk in the address, Feishu in the body. */
const signers: Partial<Record<NotificationKind, (message: Unsigned) => Pick<Unsigned, 'url' | 'payload'>>> = {
  dingtalk({ url, payload, secret, atMs }) {
    const signed = new URL(url)
    signed.searchParams.set('timestamp', String(atMs))
    signed.searchParams.set('sign', createHmac('sha256', secret).update(`${atMs}\n${secret}`).digest('base64'))
    return { url: signed, payload }
  },
  feishu({ url, payload, secret, atMs }) {
    const timestamp = String(Math.floor(atMs / 1000))
    // As documented: the text is the key, and nothing is signed with it.
    const sign = createHmac('sha256', `${timestamp}\n${secret}`).digest('base64')
    return { url, payload: { timestamp, sign, ...(payload as object) } }
  }
}

/** A message with the signature of its kind, and the headers of the Standard Webhooks convention, which do no harm. */
export function signed(kind: NotificationKind, message: Unsigned): Outgoing {
  const { url, payload } = message.secret === '' ? message : (signers[kind]?.(message) ?? message)
  const body = JSON.stringify(payload)
  return { url, body, headers: webhookHeaders({ ...message, body }) }
}

/**
 * The headers of the Standard Webhooks convention: an id that every attempt of a message shares, the second of this
 * attempt, and, with a secret, the signature over "id.timestamp.body".
 */
export function webhookHeaders(message: { id: string; atMs: number; body: string; secret: string }): Record<string, string> {
  const { id, atMs, body, secret } = message
  const timestamp = String(Math.floor(atMs / 1000))
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp }
  if (secret === '') return headers
  const signature = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.${body}`).digest('base64')
  return { ...headers, 'webhook-signature': `v1,${signature}` }
}

const prefix = 'whsec_'

/** A secret with the convention's prefix is base64 after it; any other is used as it stands (decisions §8). */
function keyOf(secret: string): Buffer {
  return secret.startsWith(prefix) ? Buffer.from(secret.slice(prefix.length), 'base64') : Buffer.from(secret, 'utf8')
}
