import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { hasCode, reasonOf, Refusal } from './errors.js'
import { replaceFile } from './files.js'

/** A key pair with which a process signs what it sends (Ed25519). */
export interface SigningKey {
  readonly key: KeyObject
  /** The 32 bytes of the public key in base64. */
  readonly publicKey: string
}

const secretMode = 0o600
const directoryMode = 0o700
/** The header of an Ed25519 public key in DER (RFC 8410 §4); the 32 bytes follow. */
const derHeader = Buffer.from('302a300506032b6570032100', 'hex')
const publicKeyBytes = 32

/**
 * Returns the key in a file (PKCS #8 in PEM, readable by its owner only). The first call creates it. `unusable` makes the
 * refusal of a file that cannot be used.
 */
export async function openSigningKey(
  path: string,
  unusable: (why: string, cause?: unknown) => Refusal
): Promise<SigningKey> {
  const pem = await readFile(path, 'utf8').catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return createPem(path)
    throw unusable(reasonOf(error), error)
  })
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'ed25519') throw unusable('it is not an Ed25519 key')
    return { key, publicKey: rawPublicKey(key).toString('base64') }
  } catch (error) {
    throw error instanceof Refusal ? error : unusable('it does not contain a key', error)
  }
}

/** Returns the 32 bytes of an Ed25519 public key, or of that of a private key. */
export function rawPublicKey(key: KeyObject): Buffer {
  const shown = key.type === 'private' ? createPublicKey(key) : key
  return shown.export({ type: 'spki', format: 'der' }).subarray(derHeader.length)
}

/** Returns the public key of 32 bytes in base64; null if the text is not one. */
export function parsePublicKey(text: string): KeyObject | null {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length !== publicKeyBytes || bytes.toString('base64') !== text) return null
  return createPublicKey({ key: Buffer.concat([derHeader, bytes]), type: 'spki', format: 'der' })
}

async function createPem(path: string): Promise<string> {
  const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  await mkdir(dirname(path), { recursive: true, mode: directoryMode })
  await replaceFile(path, pem, secretMode)
  return pem
}
