import { createHash, createHmac, randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { replaceFile } from '../config/replace-file.js'

/** The name of the file in the data directory. Backups leave it out, so that sessions do not travel with them. */
export const sessionKeyName = 'session.key'

const keyBytes = 32
const nameLength = 8
const secretMode = 0o600

/** The key of one data directory. The digests of its sessions, and the name of its cookie, depend on it. */
export interface SessionKey {
  /** Null until a first session needs it. */
  current(): Buffer | null
  /** Creates the key if there is none. `onCreate` runs before it is used: sessions of an earlier key are void. */
  ensure(onCreate: () => Promise<unknown>): Promise<Buffer>
}

/** Opens the key file of a data directory. A file of another length is replaced when a session begins. */
export function openSessionKey({ directory }: { directory: string }): SessionKey {
  const path = join(directory, sessionKeyName)
  let key = readKey(path)
  let creating: Promise<Buffer> | undefined

  async function create(onCreate: () => Promise<unknown>): Promise<Buffer> {
    const made = randomBytes(keyBytes)
    await replaceFile(path, made.toString('base64url'), secretMode)
    await onCreate()
    key = made
    return made
  }

  return {
    current: () => key,
    async ensure(onCreate) {
      if (key !== null) return key
      creating ??= create(onCreate).finally(() => void (creating = undefined))
      return await creating
    }
  }
}

/** A name that distinguishes this data directory from others on the same host: cookies ignore ports. */
export function instanceName(key: Buffer): string {
  return createHash('sha256').update('cookie').update(key).digest('hex').slice(0, nameLength)
}

/** What identifies the secret of a session in the store. */
export function digestOf(key: Buffer, secret: string): string {
  return createHmac('sha256', key).update(`session ${secret}`).digest('base64url')
}

/** What identifies an admin token beside a session: once the token is another one, the session is void. */
export function tokenMarkOf(key: Buffer, adminToken: string): string {
  return createHmac('sha256', key).update(`token ${adminToken}`).digest('base64url')
}

/** The CSRF token of a session: only its own pages can learn it. */
export function csrfOf(secret: string): string {
  return createHmac('sha256', secret).update('csrf').digest('base64url')
}

function readKey(path: string): Buffer | null {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats === undefined) return null
  if ((stats.mode & 0o077) !== 0) chmodSync(path, secretMode)
  const key = Buffer.from(readFileSync(path, 'utf8').trim(), 'base64url')
  return key.length === keyBytes ? key : null
}
