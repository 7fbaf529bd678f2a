import { createHash, createHmac, randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from '../base/files.js'

/**
 * Name of the key file in the data directory. Backups do not contain it, so a copy of the data has no valid sessions.
 */
export const sessionKeyName = 'session.key'

/** Length of the key. */
export const sessionKeyBytes = 32
const nameLength = 8
const secretMode = 0o600

/** The key of one data directory. The digests of its sessions and the name of its cookie depend on it. */
export type SessionKey = ReturnType<typeof openSessionKey>

/** Opens the key file of a data directory. A file of the wrong length is replaced when a session begins. */
export function openSessionKey({ directory }: { directory: string }) {
  const path = join(directory, sessionKeyName)
  let key = readKey(path)
  let creating: Promise<Buffer> | undefined

  async function create(onCreate: () => Promise<unknown>): Promise<Buffer> {
    const made = randomBytes(sessionKeyBytes)
    await replaceFile(path, made.toString('base64url'), secretMode)
    await onCreate()
    key = made
    return made
  }

  return {
    /** Null until the first session. */
    current: (): Buffer | null => key,

    /** Creates the key if there is none. `onCreate` runs before the key is used, to remove sessions of an earlier key. */
    async ensure(onCreate: () => Promise<unknown>): Promise<Buffer> {
      if (key !== null) return key
      creating ??= create(onCreate).finally(() => void (creating = undefined))
      return await creating
    }
  }
}

/** Returns a name that distinguishes this data directory from others on the same host, because cookies ignore ports. */
export function instanceName(key: Buffer): string {
  return createHash('sha256').update('cookie').update(key).digest('hex').slice(0, nameLength)
}

/** Returns the digest that identifies a session's secret in the store. */
export function digestOf(key: Buffer, secret: string): string {
  return createHmac('sha256', key).update(`session ${secret}`).digest('base64url')
}

/** Returns the mark of the admin token in a session. If the token changes, the session becomes invalid. */
export function tokenMarkOf(key: Buffer, adminToken: string): string {
  return createHmac('sha256', key).update(`token ${adminToken}`).digest('base64url')
}

/** Returns the CSRF token of a session. Only pages of the session can read it. */
export function csrfOf(secret: string): string {
  return createHmac('sha256', secret).update('csrf').digest('base64url')
}

function readKey(path: string): Buffer | null {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return null
  if ((stats.mode & 0o077) !== 0) chmodSync(path, secretMode)
  return parseSessionKey(readFileSync(path, 'utf8'))
}

/** Returns the key that a text contains; null if its length is wrong. */
export function parseSessionKey(text: string): Buffer | null {
  const key = Buffer.from(text.trim(), 'base64url')
  return key.length === sessionKeyBytes ? key : null
}
