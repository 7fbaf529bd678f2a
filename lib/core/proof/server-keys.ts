/*
 * Public keys of servers, as people hand them on, and the keys that follow them. A server that gets a new key signs it with
 * the one before (`hubKeyText`), so that a verifier that knows one key learns all later ones, and no earlier
 * one.
 */
import { type KeyObject, verify } from 'node:crypto'
import { Refusal } from '../../base/errors.js'
import { parsePublicKey } from '../../base/signing-key.js'
import { hubKeyText, type SignedHubKey } from '../../model/fleet-wire.js'
import { readVerifierKey } from '../audit/signed-note.js'
import { fingerprintOf } from './dsse.js'
import { ed25519, readPublicKey } from './keys.js'

/** A key that a verifier trusts: the key, or its fingerprint alone. */
export interface TrustedKey {
  fingerprint: string
  key: KeyObject | null
}

const fingerprint = /^SHA256:[A-Za-z0-9+/]{43}$/

/**
 * Reads a key: the text of `keys/server.pub`, a public key in PEM, a line as SSH writes it, or a fingerprint. Refuses
 * (`invalid`, `bad_key`) anything else.
 */
export function readTrustedKey(given: string): TrustedKey {
  const text = given.trim()
  if (fingerprint.test(text)) return { fingerprint: text, key: null }
  const key = publicKeyOf(text)
  if (key === null || key.asymmetricKeyType !== 'ed25519') throw badKey()
  return { fingerprint: fingerprintOf(key), key }
}

function publicKeyOf(text: string): KeyObject | null {
  try {
    if (text.startsWith('-----BEGIN PUBLIC KEY-----') || text.startsWith(`${ed25519} `)) return readPublicKey(text).key
    if (readVerifierKey(text) === null) return null
    const marked = Buffer.from(text.slice(text.indexOf('+', text.indexOf('+') + 1) + 1), 'base64')
    return parsePublicKey(marked.subarray(1).toString('base64'))
  } catch {
    return null
  }
}

function badKey(): Refusal {
  const forms = 'expected the text of keys/server.pub, a public key in PEM, a line "ssh-ed25519 …" or a fingerprint'
  return new Refusal('invalid', 'bad_key', `This is not the public key of a server: ${forms}`, { field: 'key' })
}

/**
 * Returns the keys that follow a key, by the statements of their server. `revoked` are not followed: what such a key
 * signed counts for nothing.
 */
export function successorsOf(
  first: KeyObject,
  statements: readonly SignedHubKey[],
  revoked: ReadonlySet<string> = new Set()
): KeyObject[] {
  const found: KeyObject[] = []
  const seen = new Set([fingerprintOf(first)])
  for (const open = [first]; open.length > 0; ) {
    const key = open.pop() as KeyObject
    if (revoked.has(fingerprintOf(key))) continue
    for (const { hubKey, signature } of statements) {
      const next = parsePublicKey(hubKey)
      if (next === null || seen.has(fingerprintOf(next))) continue
      if (!verify(null, Buffer.from(hubKeyText(hubKey)), key, Buffer.from(signature, 'base64'))) continue
      seen.add(fingerprintOf(next))
      found.push(next)
      open.push(next)
    }
  }
  return found
}
