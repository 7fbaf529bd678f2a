/*
 * The key that encrypts the secrets of all projects: `variables.key` in the data directory, 64 hexadecimal digits, mode
 * 0600. It is created when the first secret is stored, and backups contain it. Without it, secrets cannot be decrypted.
 */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { hasCode, reasonOf, Refusal } from '../base/errors.js'
import { replaceFile } from '../base/files.js'
import { keyBytes } from './seal.js'

const keyMode = 0o600

/** The result of reading the file: a key, or why there is none. */
export type FoundKey = { key: Buffer } | { key: null; isMissing: boolean; why: string }

/** The key file of a data directory. */
export interface VariablesKey {
  path: string
  /** Reads the file. It is read each time, because an operator may restore it while the server runs. */
  find(): Promise<FoundKey>
  /** Writes a new key and syncs it to disk. If another key was created in the meantime, that one is kept. */
  create(): Promise<Buffer>
}

/** Creates the access to the key in the file at `path`. */
export function createVariablesKey(path: string): VariablesKey {
  let creating: Promise<Buffer> | null = null

  async function find(): Promise<FoundKey> {
    try {
      const key = parseVariablesKey(await readFile(path, 'utf8'))
      return key === null
        ? { key, isMissing: false, why: 'it does not contain a key of 64 hexadecimal digits' }
        : { key }
    } catch (error) {
      const isMissing = hasCode(error, 'ENOENT')
      return {
        key: null,
        isMissing,
        why: isMissing ? 'the file is missing' : `it cannot be read: ${reasonOf(error)}`
      }
    }
  }

  async function write(): Promise<Buffer> {
    const found = await find()
    if (found.key !== null) return found.key
    if (!found.isMissing) throw unusableKey(path, found.why)
    const key = randomBytes(keyBytes)
    await replaceFile(path, `${key.toString('hex')}\n`, keyMode)
    return key
  }

  return {
    path,
    find,
    create() {
      creating ??= write().finally(() => (creating = null))
      return creating
    }
  }
}

/** Returns the 503 if secrets exist and their key cannot be used. `cures`: what to do about each kind of secrets. */
export function unusableKey(path: string, why: string, cures: readonly string[] = []): Refusal {
  const without =
    cures.length === 0
      ? 'remove that file if it exists, and begin again: svc then makes a new key'
      : cures.join(', and ')
  const cure = `Restore "${path}" from a backup, or ${without}`
  return new Refusal('unavailable', 'variables_key', `Cannot use the key of the secrets: ${why}. ${cure}`)
}

/** Returns the key that a text contains; null if it is not one. */
export function parseVariablesKey(text: string): Buffer | null {
  const digits = text.trim()
  return /^[0-9a-f]{64}$/i.test(digits) ? Buffer.from(digits, 'hex') : null
}
