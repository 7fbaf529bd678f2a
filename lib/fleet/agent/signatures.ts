/* The signatures between an agent and its hub: Ed25519 over the texts of model/fleet-wire.ts. */
import { createPublicKey, sign, verify, type KeyObject } from 'node:crypto'
import { requestText } from '../../model/fleet-wire.js'

const keyBytes = 32

/** Returns the public key of these 32 bytes in base64; null: they are not a key. */
export function publicKeyOf(base64: string): KeyObject | null {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length !== keyBytes) return null
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, format: 'jwk' })
}

/** Returns whether a key has signed a text. `signature` is base64. */
export function isSignedBy(key: KeyObject, text: string, signature: string): boolean {
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64'))
}

/** Returns the headers that sign a request. */
export function signedHeaders(key: KeyObject, request: Parameters<typeof requestText>[0]): Record<string, string> {
  const { nodeId, session, counter, bodySha256 } = request
  const signature = sign(null, Buffer.from(requestText(request)), key).toString('base64url')
  return {
    authorization: `SvcNode ${nodeId} ${session} ${counter} ${signature}`,
    'svc-content-sha256': bodySha256
  }
}
