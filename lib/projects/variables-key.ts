/*
 * The key that seals the secrets of all projects: `variables.key` in the data directory, 64 hexadecimal digits, mode 0600.
 * It is made when the first secret is stored, and it is part of a backup. Without it, secrets cannot be read.
 */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Refusal } from '../base/refusal.js'
import { messageOf } from '../base/system-error.js'
import { replaceFile } from '../config/replace-file.js'
import { keyBytes } from './seal.js'

const keyMode = 0o600

/** What the file says: a key, nothing because there is no file, or why it cannot be used. */
export type FoundKey = { key: Buffer } | { key: null; isMissing: boolean; why: string }

export interface VariablesKey {
  path: string
  /** Read anew each time: an operator may put the file back while the server runs. */
  find(): Promise<FoundKey>
  /** Writes a new key, on the disk when this resolves. One that is there meanwhile is kept. */
  create(): Promise<Buffer>
}

/** The key in the file at `path`. */
export function createVariablesKey(path: string): VariablesKey {
  let creating: Promise<Buffer> | null = null

  async function find(): Promise<FoundKey> {
    try {
      const key = parse(await readFile(path, 'utf8'))
      return key === null ? { key, isMissing: false, why: 'it does not contain a key of 64 hexadecimal digits' } : { key }
    } catch (error) {
      const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
      return { key: null, isMissing, why: isMissing ? 'the file is missing' : `it cannot be read: ${messageOf(error as Error)}` }
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

/** The 503 when secrets exist and their key cannot be used. */
export function unusableKey(path: string, why: string): Refusal {
  const cure = `Restore "${path}" from a backup, or remove the secrets and set them again`
  return new Refusal('unavailable', 'variables_key', `The key of the secrets cannot be used: ${why}. ${cure}`)
}

function parse(text: string): Buffer | null {
  const digits = text.trim()
  return /^[0-9a-f]{64}$/i.test(digits) ? Buffer.from(digits, 'hex') : null
}
