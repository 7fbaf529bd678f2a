import { randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { isDenied, reasonOf, Refusal } from '../base/errors.js'
import { replaceFile } from '../base/files.js'

/**
 * Name of the key file in the data directory. Backups do not contain it, so a copy of the data has no valid sessions.
 */
export const sessionKeyName = 'session.key'

/** Length of the key. */
export const sessionKeyBytes = 32
const secretMode = 0o600

/** The key of one data directory. The digests of its sessions and the name of its cookie depend on it. */
export type SessionKey = ReturnType<typeof openSessionKey>

/**
 * Opens the key file of a data directory. A file of the wrong length is replaced when a session begins. Refuses
 * `session_key_unreadable`.
 */
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

function readKey(path: string): Buffer | null {
  try {
    const stats = statSync(path, { throwIfNoEntry: false })
    if (stats === undefined) return null
    if ((stats.mode & 0o077) !== 0) chmodSync(path, secretMode)
    return parseSessionKey(readFileSync(path, 'utf8'))
  } catch (cause) {
    const cure = isDenied(cause) ? 'Run svc as its owner, or move it away' : 'Move it away'
    const sentence = `Cannot read the key of browser sessions "${path}": ${reasonOf(cause)}. ${cure}: everybody then signs in again`
    throw new Refusal('unavailable', 'session_key_unreadable', sentence, { cause })
  }
}

/** Returns the key that a text contains; null if its length is wrong. */
export function parseSessionKey(text: string): Buffer | null {
  const key = Buffer.from(text.trim(), 'base64url')
  return key.length === sessionKeyBytes ? key : null
}
