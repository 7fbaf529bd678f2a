/*
 * The key that signs checkpoints: `keys/server.ed25519` in the data directory, PKCS #8 in PEM, mode 0600. Backups contain
 * it; nothing else ever leaves the data directory but its public part, which `keys/server.pub` repeats for copying. After
 * a rotation, `keys/server.old.ed25519` signs too, so that a witness that knows only the old key learns the new one.
 */
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import { replaceFile } from '../../base/files.js'
import { sha256 } from '../../base/digests.js'
import { createSigner, type Signer } from './signed-note.js'

export type ServerKey = ReturnType<typeof createServerKey>

export type KeyFile = 'server.ed25519' | 'server.old.ed25519' | 'server.pub'

/** The place of the files: a directory, or the state that all hubs of a cluster have. */
export type KeyPlace = ReturnType<typeof placeIn>

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
      await mkdir(directory, { recursive: true, mode: directoryMode })
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
