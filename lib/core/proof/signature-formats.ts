import { createHash, createPrivateKey, type KeyObject, sign, verify } from 'node:crypto'
import { sha256 } from '../../base/digests.js'
import { signingNamespace } from '../../model/statement.js'
import { sshPublicKey, sshString } from './statement.js'
import {
  ed25519,
  ofBlob,
  type PublicKey,
  securityKey,
  armored,
  sshReader,
  unreadable,
  bytesOf,
  linesOf
} from './keys.js'

/*
 * Signatures of `ssh-keygen -Y sign` (PROTOCOL.sshsig of OpenSSH): Ed25519 keys, in a file or in hardware (PROTOCOL.u2f).
 *
 *   "SSHSIG"  6 bytes
 *   uint32    version: 1
 *   string    public key
 *   string    namespace: says what the signature is for
 *   string    reserved
 *   string    hash algorithm: "sha512" or "sha256"
 *   string    signature: string type, string 64 bytes; in hardware also byte flags, uint32 counter
 *
 * A signature covers "SSHSIG", namespace, reserved, hash algorithm, and the hash of the message.
 *
 * DIFFERENCES: other algorithms than Ed25519 and certificates are refused.
 */

export interface SshSignature {
  /** The key that it says it is of. */
  key: PublicKey
  namespace: string
  hash: 'sha512' | 'sha256'
  sig: Buffer
  /** Flags and counter of a key in hardware, 5 bytes; null: the key is in a file. */
  presence: Buffer | null
}

const magic = 'SSHSIG'
const armorName = 'SSH SIGNATURE'
const what = 'the SSH signature'
const signatureBytes = 64
/** The user touched the key (PROTOCOL.u2f, "flags"). */
const userPresent = 0x01

/** Reads a signature. Refuses (400 `key_unreadable`) anything else. */
export function readSshSignature(text: string): SshSignature {
  const reader = sshReader(armored(text, armorName, what), what)
  if (reader.take(magic.length).toString('latin1') !== magic) throw unreadable(what, 'it does not begin with SSHSIG')
  if (reader.number() !== 1) throw unreadable(what, 'it is of another version')
  const key = ofBlob(reader.string())
  const namespace = reader.text()
  if (reader.string().length > 0) throw unreadable(what, 'a reserved part is not empty')
  const hash = reader.text()
  if (hash !== 'sha512' && hash !== 'sha256') throw unreadable(what, 'its hash algorithm is not supported')
  const inner = sshReader(reader.string(), what)
  reader.end()
  const isHardware = key.application !== null
  if (inner.text() !== (isHardware ? securityKey : ed25519))
    throw unreadable(what, 'it is of another type than its key')
  const sig = inner.string()
  if (sig.length !== signatureBytes) throw unreadable(what, 'it has another length than a signature')
  const presence = isHardware ? inner.take(5) : null
  inner.end()
  return { key, namespace, hash, sig, presence }
}

/** Returns what a signature covers. */
function covered(message: Uint8Array, { namespace, hash }: Pick<SshSignature, 'namespace' | 'hash'>): Buffer {
  const digest = createHash(hash).update(message).digest()
  return Buffer.concat([
    Buffer.from(magic),
    sshString(Buffer.from(namespace, 'latin1')),
    sshString(Buffer.alloc(0)),
    sshString(Buffer.from(hash)),
    sshString(digest)
  ])
}

/** Returns whether a signature is one of the key that it names, over this message, for releases. */
export function isSshSigned(message: Uint8Array, signature: SshSignature): boolean {
  const { key, namespace, sig, presence } = signature
  if (namespace !== signingNamespace) return false
  const bytes = covered(message, signature)
  if (presence === null) return verify(null, bytes, key.key, sig)
  if (((presence[0] as number) & userPresent) === 0) return false
  const application = sha256(Buffer.from(key.application ?? '', 'latin1'))
  return verify(null, Buffer.concat([application, presence, sha256(bytes)]), key.key, sig)
}

/** Returns the signature of a message, as ssh-keygen writes it. */
export function sshSigned(message: Uint8Array, key: KeyObject): string {
  const kind = { namespace: signingNamespace, hash: 'sha512' } as const
  const sig = sign(null, covered(message, kind), key)
  const blob = Buffer.concat([
    Buffer.from(magic),
    Buffer.from([0, 0, 0, 1]),
    sshString(sshPublicKey(key)),
    sshString(Buffer.from(kind.namespace)),
    sshString(Buffer.alloc(0)),
    sshString(Buffer.from(kind.hash)),
    sshString(Buffer.concat([sshString(Buffer.from(ed25519)), sshString(sig)]))
  ])
  const lines = blob.toString('base64').match(/.{1,70}/g) ?? []
  return [`-----BEGIN ${armorName}-----`, ...lines, `-----END ${armorName}-----`, ''].join('\n')
}

const privateWhat = 'the private key'
const privateName = 'OPENSSH PRIVATE KEY'

/** Whether a text is a private key of OpenSSH. */
export const isOpensshKey = (text: string): boolean => text.startsWith(`-----BEGIN ${privateName}-----`)

/**
 * Reads a private key of OpenSSH (PROTOCOL.key). Returns null if only ssh-keygen can use it: it is encrypted, or in hardware.
 * Refuses (400 `key_unreadable`) anything else that is not an Ed25519 key.
 */
export function readOpensshKey(text: string): { key: KeyObject; comment: string } | null {
  const reader = sshReader(armored(text.trim(), privateName, privateWhat), privateWhat)
  if (reader.take(15).toString('latin1') !== 'openssh-key-v1\0')
    throw unreadable(privateWhat, 'it is of another version')
  const cipher = reader.text()
  reader.text()
  reader.string()
  if (reader.number() !== 1) throw unreadable(privateWhat, 'it is not one key')
  const { application } = ofBlob(reader.string())
  if (cipher !== 'none' || application !== null) return null
  const inner = sshReader(reader.string(), privateWhat)
  reader.end()
  const checks = [inner.take(4), inner.take(4)] as const
  if (!checks[0].equals(checks[1])) throw unreadable(privateWhat, 'it is damaged')
  if (inner.text() !== ed25519) throw unreadable(privateWhat, 'it is not an Ed25519 key')
  const raw = inner.string()
  const both = inner.string()
  const comment = inner.string().toString('utf8')
  if (raw.length !== 32 || both.length !== 64 || !both.subarray(32).equals(raw)) {
    throw unreadable(privateWhat, 'it is damaged')
  }
  return { key: fromSeed(both.subarray(0, 32), raw), comment }
}

/** Returns the private key of 32 secret bytes and its 32 public ones. */
function fromSeed(seed: Buffer, raw: Buffer): KeyObject {
  const [d, x] = [seed.toString('base64url'), raw.toString('base64url')]
  try {
    return createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' })
  } catch {
    throw unreadable(privateWhat, 'it is damaged')
  }
}

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

export interface MinisignSignature {
  /** The id of the key. */
  keyId: Buffer
  sig: Buffer
  trustedComment: string
  globalSig: Buffer
}

const minisignature = 'the signature of minisign'
const untrusted = 'untrusted comment: '
const trusted = 'trusted comment: '
const maxCommentLength = 8192
const idBytes = 8

/** Whether a text is one of minisign. */
export const isMinisign = (text: string): boolean => text.startsWith(untrusted)

/** Reads a signature. Refuses (400 `key_unreadable`) anything else. */
export function readMinisignSignature(text: string): MinisignSignature {
  const [first = '', second = '', third = '', fourth = '', ...rest] = linesOf(text, minisignature)
  if (!first.startsWith(untrusted) || !third.startsWith(trusted) || rest.length > 0) {
    throw unreadable(minisignature, 'it must have the four lines that minisign writes')
  }
  if (third.length > maxCommentLength) throw unreadable(minisignature, 'its comment is too long')
  const [bytes, globalSig] = [bytesOf(second, minisignature), bytesOf(fourth, minisignature)]
  if (bytes.length !== 2 + idBytes + signatureBytes || globalSig.length !== signatureBytes) {
    throw unreadable(minisignature, 'it has another length than a signature')
  }
  const algorithm = bytes.toString('latin1', 0, 2)
  if (algorithm === 'Ed') throw unreadable(minisignature, 'it is of the legacy form. Sign without the option -l')
  if (algorithm !== 'ED') throw unreadable(minisignature, 'its algorithm is not known')
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
    throw unreadable(name, 'it is encrypted. Make a key without a password: minisign -G -W')
  }
  const body = bytes.subarray(54)
  const [keyId, secret] = [body.subarray(0, idBytes), body.subarray(idBytes, idBytes + 64)]
  return { key: fromSeed(secret.subarray(0, 32), secret.subarray(32)), keyId }
}
