/*
 * Signed notes (C2SP signed-note): a text, an empty line, and a line for each signature.
 *
 *   — <key name> <base64(key id, 4 bytes ‖ signature)>
 *
 * Keys are Ed25519 keys. A verifier key is written `<key name>+<key id, 8 hex digits>+<base64(0x01 ‖ public key)>`.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { sha256 } from '../../base/digests.js'
import { hashBytes } from './tree.js'

/** Signs notes. */
export interface Signer {
  /** The key as verifiers write it. */
  readonly verifierKey: string
  readonly keyId: string
  /** The 32 bytes of the public key in base64. */
  readonly publicKey: string
  /** Returns the signature line of a text. */
  line(text: string): string
  /** Returns the signature of a text, or of bytes, in base64. */
  sign(signed: string | Uint8Array): string
}

/** Verifies the signatures of one key. */
export interface Verifier {
  readonly name: string
  /** Eight hex digits. */
  readonly keyId: string
  /** Returns whether the note has a valid signature of this key, and no other signature that claims to be of it. */
  verifies(note: SignedNote): boolean
}

/** A note and its signatures, which are not verified yet. */
export interface SignedNote {
  /** The text, with the newline at its end. */
  text: string
  signatures: ReadonlyArray<{ name: string; keyId: string; signature: Buffer }>
}

const algorithm = 0x01
const idBytes = 4
const publicKeyBytes = 32
const signatureBytes = 64
/** Maximum length of a note. Longer ones are not read. */
const maxNoteLength = 64 * 1024

/** Creates a signer from a private key in PEM. Throws for a key that is not an Ed25519 key. */
export function createSigner(name: string, pem: string): Signer {
  const key = createPrivateKey(pem)
  if (key.asymmetricKeyType !== 'ed25519') throw new Error('The key is not an Ed25519 key')
  const publicKey = publicBytes(createPublicKey(key))
  const id = idOf(name, publicKey)
  return {
    keyId: id.toString('hex'),
    verifierKey: `${name}+${id.toString('hex')}+${marked(publicKey).toString('base64')}`,
    publicKey: publicKey.toString('base64'),
    sign: signed => sign(null, Buffer.from(signed as Uint8Array), key).toString('base64'),
    line: text => `— ${name} ${Buffer.concat([id, sign(null, Buffer.from(text), key)]).toString('base64')}\n`
  }
}

/** Returns the note of a text, which ends with a newline, with the signatures of these signers. */
export function signNote(text: string, signers: readonly Signer[]): string {
  return `${text}\n${signers.map(signer => signer.line(text)).join('')}`
}

/** Reads a note; null if it is malformed. */
export function readNote(note: string): SignedNote | null {
  if (note.length > maxNoteLength || !note.endsWith('\n')) return null
  const end = note.lastIndexOf('\n\n')
  if (end === -1) return null
  const signatures: Array<{ name: string; keyId: string; signature: Buffer }> = []
  for (const line of note.slice(end + 2, -1).split('\n')) {
    const [, name, encoded] = /^— ([^\s+]+) (\S+)$/u.exec(line) ?? []
    if (name === undefined || encoded === undefined || !isBase64(encoded)) return null
    const bytes = Buffer.from(encoded, 'base64')
    if (bytes.length <= idBytes) return null
    signatures.push({ name, keyId: bytes.toString('hex', 0, idBytes), signature: bytes.subarray(idBytes) })
  }
  return { text: note.slice(0, end + 1), signatures }
}

/** Reads a verifier key; null if it is malformed or of another algorithm. */
export function readVerifierKey(text: string): Verifier | null {
  const [, name, keyId, encoded] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/u.exec(text.trim()) ?? []
  if (name === undefined || keyId === undefined || encoded === undefined || !isBase64(encoded)) return null
  const bytes = Buffer.from(encoded, 'base64')
  if (bytes.length !== 1 + publicKeyBytes || bytes[0] !== algorithm) return null
  const publicKey = bytes.subarray(1)
  if (idOf(name, publicKey).toString('hex') !== keyId) return null
  const key = createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: publicKey.toString('base64url') },
    format: 'jwk'
  })
  return {
    name,
    keyId,
    verifies({ text, signatures }) {
      const own = signatures.filter(signature => signature.name === name && signature.keyId === keyId)
      const signed = Buffer.from(text)
      return (
        own.length > 0 &&
        own.every(({ signature }) => signature.length === signatureBytes && verify(null, signed, key, signature))
      )
    }
  }
}

/** Returns whether the text is base64 in its only form: no two texts give the same bytes. */
export function isBase64(text: string): boolean {
  return Buffer.from(text, 'base64').toString('base64') === text
}

/** Returns the id of a key: the first bytes of the SHA-256 of its name and itself. */
function idOf(name: string, publicKey: Buffer): Buffer {
  return sha256(Buffer.concat([Buffer.from(`${name}\n`), marked(publicKey)])).subarray(0, idBytes)
}

function marked(publicKey: Buffer): Buffer {
  return Buffer.concat([Buffer.of(algorithm), publicKey])
}

function publicBytes(key: KeyObject): Buffer {
  return Buffer.from(key.export({ format: 'jwk' }).x as string, 'base64url')
}

/*
 * The text of a checkpoint (C2SP tlog-checkpoint): the origin, the size of the tree, and the base64 of its root, one line
 * each. Lines after them are extensions. svc writes `baseline <entries>` for entries from before the tree.
 */

/** The state of a tree, as its server signs it. */
export interface Checkpoint {
  /** The name of the tree. */
  origin: string
  size: number
  root: Buffer
  extensions: readonly string[]
}

/** Returns the text of a checkpoint. */
export function writeCheckpoint({ origin, size, root, extensions }: Checkpoint): string {
  return [origin, String(size), root.toString('base64'), ...extensions, ''].join('\n')
}

/** Reads the text of a checkpoint; null if it is malformed. */
export function readCheckpoint(text: string): Checkpoint | null {
  const [origin, decimal, encoded, ...rest] = text.split('\n')
  if (!origin || decimal === undefined || encoded === undefined || rest.pop() !== '') return null
  if (!/^(0|[1-9]\d{0,15})$/.test(decimal) || !/^[A-Za-z0-9+/]{43}=$/.test(encoded)) return null
  const [size, root] = [Number(decimal), Buffer.from(encoded, 'base64')]
  if (!Number.isSafeInteger(size) || !isBase64(encoded) || root.length !== hashBytes || rest.includes('')) return null
  return { origin, size, root, extensions: rest }
}
