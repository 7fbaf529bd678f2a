/*
 * Signatures of minisign (https://jedisct1.github.io/minisign/, "Signature format"): Ed25519 over the BLAKE2b-512 of the file.
 *
 *   untrusted comment: <anything>
 *   base64(2 bytes "ED", 8 bytes key id, 64 bytes signature)
 *   trusted comment: <anything>
 *   base64(64 bytes: signature over the first signature and the trusted comment)
 *
 * DIFFERENCES: the legacy form "Ed", which signs the file itself, is refused. Minisign has made the other one since 0.8, and
 * a signature over a hash is never taken for one over a document.
 */
import { createHash, type KeyObject, sign, verify } from 'node:crypto'
import { fromSeed } from './sshsig.js'
import { bytesOf, linesOf, unreadable } from './keys.js'

/** A signature of minisign. */
export interface MinisignSignature {
  /** The id of the key. */
  keyId: Buffer
  sig: Buffer
  trustedComment: string
  globalSig: Buffer
}

const what = 'the signature of minisign'
const untrusted = 'untrusted comment: '
const trusted = 'trusted comment: '
const maxCommentLength = 8192
const signatureBytes = 64
const idBytes = 8

/** Whether a text is one of minisign. */
export const isMinisign = (text: string): boolean => text.startsWith(untrusted)

/** Reads a signature. Refuses (400 `key_unreadable`) anything else. */
export function readMinisignSignature(text: string): MinisignSignature {
  const [first = '', second = '', third = '', fourth = '', ...rest] = linesOf(text, what)
  if (!first.startsWith(untrusted) || !third.startsWith(trusted) || rest.length > 0) {
    throw unreadable(what, 'it must have the four lines that minisign writes')
  }
  if (third.length > maxCommentLength) throw unreadable(what, 'its comment is too long')
  const [bytes, globalSig] = [bytesOf(second, what), bytesOf(fourth, what)]
  if (bytes.length !== 2 + idBytes + signatureBytes || globalSig.length !== signatureBytes) {
    throw unreadable(what, 'it has another length than a signature')
  }
  const algorithm = bytes.toString('latin1', 0, 2)
  if (algorithm === 'Ed') throw unreadable(what, 'it is of the legacy form. Sign without the option -l')
  if (algorithm !== 'ED') throw unreadable(what, 'its algorithm is not known')
  const [keyId, sig] = [bytes.subarray(2, 2 + idBytes), bytes.subarray(2 + idBytes)]
  return { keyId, sig, trustedComment: third.slice(trusted.length), globalSig }
}

/** Returns whether a signature is one of this key, over this message. */
export function isMinisigned(message: Uint8Array, signature: MinisignSignature, key: KeyObject): boolean {
  const { sig, trustedComment, globalSig } = signature
  const digest = createHash('blake2b512').update(message).digest()
  if (!verify(null, digest, key, sig)) return false
  return verify(null, Buffer.concat([sig, Buffer.from(trustedComment)]), key, globalSig)
}

/** A private key of minisign. */
export interface MinisignKey {
  key: KeyObject
  keyId: Buffer
}

/** Returns the signature of a message, as minisign writes it. */
export function minisigned(message: Uint8Array, { key, keyId }: MinisignKey, comment: string): string {
  const sig = sign(null, createHash('blake2b512').update(message).digest(), key)
  const globalSig = sign(null, Buffer.concat([sig, Buffer.from(comment)]), key)
  const bytes = Buffer.concat([Buffer.from('ED'), keyId, sig])
  return [
    `${untrusted}signature from svc`,
    bytes.toString('base64'),
    `${trusted}${comment}`,
    globalSig.toString('base64'),
    ''
  ].join('\n')
}

/**
 * Reads a private key of minisign ("Secret key format"): 2 bytes "Ed", 2 bytes of the key derivation, 2 bytes "B2", 32 + 8 + 8
 * bytes of its parameters, 8 bytes id, 64 bytes key, 32 bytes checksum. Refuses (400 `key_unreadable`) an encrypted one, and
 * anything else.
 */
export function readMinisignKey(text: string): MinisignKey {
  const name = 'the private key of minisign'
  const [first = '', second = '', ...rest] = linesOf(text, name)
  if (!first.startsWith(untrusted) || rest.length > 0) throw unreadable(name, 'it must have two lines')
  const bytes = bytesOf(second, name)
  if (bytes.length !== 158 || bytes.toString('latin1', 0, 2) !== 'Ed') throw unreadable(name, 'it is no private key')
  if (bytes.readUInt16LE(2) !== 0) {
    const sign =
      'Sign with minisign, and give the signature to --signature, or make a key without a password: minisign -G -W'
    throw unreadable(name, `it is encrypted. ${sign}`)
  }
  const body = bytes.subarray(54)
  const [keyId, secret] = [body.subarray(0, idBytes), body.subarray(idBytes, idBytes + 64)]
  return { key: fromSeed(secret.subarray(0, 32), secret.subarray(32)), keyId }
}
