import { createHmac } from 'node:crypto'

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
