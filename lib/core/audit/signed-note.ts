/*
 * Signed notes (C2SP signed-note): a text, an empty line, and a line for each signature.
 *
 *   — <key name> <base64(key id, 4 bytes ‖ signature)>
 *
 * Keys are Ed25519 keys. A verifier key is written `<key name>+<key id, 8 hex digits>+<base64(0x01 ‖ public key)>`.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify, generateKeyPairSync } from 'node:crypto'
import { sha256 } from '../../base/digests.js'
import { hashBytes } from './tree.js'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import { makeDirectory, replaceFile } from '../../base/files.js'

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

/*
 * The key that signs checkpoints: `keys/server.ed25519` in the data directory, PKCS #8 in PEM, mode 0600. Backups contain
 * it; nothing else ever leaves the data directory but its public part, which `keys/server.pub` repeats for copying. After
 * a rotation, `keys/server.old.ed25519` signs too, so that a witness that knows only the old key learns the new one.
 */

export type ServerKey = ReturnType<typeof createServerKey>

export type KeyFile = 'server.ed25519' | 'server.old.ed25519' | 'server.pub'

/** The place of the files: a directory, or the state that all hubs of a cluster have. */
type KeyPlace = ReturnType<typeof placeIn>

const directoryMode = 0o700
const keyMode = 0o600
const originDigits = 16

/** Creates the access to the keys in a directory, or in another place. */
export function createServerKey(given: string | KeyPlace) {
  const place = typeof given === 'string' ? placeIn(given) : given
  const path = join(place.path, 'server.ed25519')
  let creating: Promise<string> | null = null
  let known: Promise<{ origin: string; signers: readonly Signer[] }> | null = null

  async function create(): Promise<string> {
    const found = await place.read('server.ed25519')
    if (found !== null) return found
    return write(newKey())
  }

  async function write(pem: string): Promise<string> {
    await place.write('server.ed25519', pem)
    return pem
  }

  async function current(): Promise<string> {
    creating ??= create().finally(() => (creating = null))
    return creating
  }

  function signerOf(origin: string, pem: string): Signer {
    try {
      return createSigner(origin, pem)
    } catch (error) {
      throw unusable(path, 'it does not contain an Ed25519 key', error)
    }
  }

  async function load(given: string | null): Promise<{ origin: string; signers: readonly Signer[] }> {
    const pem = await current()
    const origin = given ?? originOf(path, pem)
    const signers = [signerOf(origin, pem)]
    const old = await place.read('server.old.ed25519')
    if (old !== null) signers.push(signerOf(origin, old))
    const { verifierKey } = signers[0] as Signer
    if ((await place.read('server.pub')) !== `${verifierKey}\n`) await place.write('server.pub', `${verifierKey}\n`)
    return { origin, signers }
  }

  return {
    /**
     * Returns the signers, the current key first. Creates the key at the first call. `origin` is the name of the tree;
     * null: it is derived from the key. Refuses `server_key`.
     */
    signers(origin: string | null): Promise<{ origin: string; signers: readonly Signer[] }> {
      known ??= load(origin).catch((error: unknown) => {
        known = null
        throw error
      })
      return known
    },

    /** Replaces the key. The earlier one becomes the old one. Returns both as verifiers write them. */
    async rotate(origin: string): Promise<{ before: Signer; after: Signer }> {
      const [old, pem] = [await current(), newKey()]
      const [before, after] = [signerOf(origin, old), signerOf(origin, pem)]
      // The old key is stored twice for a moment, so that a crash loses neither.
      await place.write('server.old.ed25519', old)
      await write(pem)
      known = null
      return { before, after }
    }
  }
}

function placeIn(directory: string) {
  return {
    /** How messages name it. */
    path: directory,
    /** Returns the text of a file; null if it does not exist. */
    read: (name: KeyFile): Promise<string | null> => readKey(join(directory, name)),

    /** Replaces a file. */
    async write(name: KeyFile, text: string): Promise<void> {
      await makeDirectory(directory, directoryMode)
      await replaceFile(join(directory, name), text, keyMode)
    }
  }
}

function newKey(): string {
  return generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}

/** Returns the name of a new tree. */
function originOf(path: string, pem: string): string {
  try {
    const bytes = createPublicKey(pem).export({ type: 'spki', format: 'der' })
    return `svc/${sha256(bytes).toString('hex').slice(0, originDigits)}/audit`
  } catch (error) {
    throw unusable(path, 'it does not contain an Ed25519 key', error)
  }
}

async function readKey(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw unusable(path, `it cannot be read: ${reasonOf(error)}`, error)
  }
}

function unusable(path: string, why: string, cause: unknown): Refusal {
  const sentence = `Cannot use the key of the audit log "${path}": ${why}. Restore it from a backup, or move it away to begin with a new key`
  return new Refusal('unavailable', 'server_key', sentence, { cause })
}
