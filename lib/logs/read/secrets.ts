/*
 * Decides whether a file may be shown, as a log source or as a file of a target. The path is checked against the deny
 * list. For an open file, three more things are checked: its real path, whether it belongs to svc under another
 * name, and whether it begins as a private key does, or as an export package or a backup of svc, which contain every token.
 */
import type { BigIntStats } from 'node:fs'
import { readlink, type FileHandle } from 'node:fs/promises'
import { Refusal } from '../../base/errors.js'
import type { Deny } from './deny.js'
import { createOwnFiles } from './own-files.js'

/** How a refusal names the file: the path that was asked for, and the field that contained it. */
export interface Named {
  asked: string
  field: string
}

/** Checks of whether a file may be shown. */
export interface Secrets {
  /** Refuses a path on the deny list: 403 `denied_path`. */
  checkPath(path: string, named: Named): void
  /** Refuses an open file: 403 `denied_path`. `path` is its real path at the time it was opened. */
  checkOpened(handle: FileHandle, path: string, named: Named): Promise<BigIntStats>
  /** Whether a path is on the deny list. */
  isDenied(path: string): boolean
  /** Whether a directory is svc's own, under this path or under another name. `path` contains no links. */
  isOwn(path: string): Promise<boolean>
}

/** The files that are protected. */
export interface Guarded {
  deny: Deny
  /** Paths of files that are denied under any name, including hard links. */
  secrets: readonly string[]
  /** Data directories that are denied under any name. */
  homes?: readonly string[]
}

/** Creates the checks. */
export function createSecrets({ deny, secrets, homes = [] }: Guarded): Secrets {
  const own = createOwnFiles({ homes, files: secrets })

  function checkPath(path: string, { asked, field }: Named): void {
    const reason = deny(path)
    if (reason === null) return
    const leads = path === asked || !isAbsoluteName(asked) ? '' : `, which leads to "${path}"`
    throw denied(`Cannot read "${asked}"${leads}: ${reason}`, field)
  }

  return {
    checkPath,
    isDenied: path => deny(path) !== null,
    isOwn: own.hasPath,
    async checkOpened(handle, path, named) {
      const place = await placeOf(handle, path)
      checkPath(place, named)
      const stats = await handle.stat({ bigint: true })
      if (!stats.isFile()) return stats
      if (await own.has(place, stats))
        throw denied(
          `Cannot read "${named.asked}": it is a file of svc under another name, by a hard link or a mount`,
          named.field
        )
      const why = whySecret(await headOf(handle))
      if (why !== null) throw denied(`Cannot read "${named.asked}": ${why}`, named.field)
      return stats
    }
  }
}

/** Whether the path is absolute. A relative path is in a target, whose location the caller need not know. */
function isAbsoluteName(path: string): boolean {
  return /^(\/|[a-z]:[\\/])/i.test(path)
}

/**
 * Returns why a file that begins so is secret: a private key in PEM (RFC 7468), or an export package or a backup, a zip
 * whose first entry is below `svc-export/` or `svc-backup/` (APPNOTE 4.3.7). A copy of such a file may have any name.
 */
function whySecret(head: string): string | null {
  if (/^-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----/.test(head)) return 'it is a private key'
  if (head.startsWith('PK\x03\x04') && /^svc-(export|backup)\//.test(head.slice(30)))
    return 'it is a package or a backup of svc, which contains every token'
  return null
}

async function headOf(handle: FileHandle): Promise<string> {
  const { buffer, bytesRead } = await handle
    .read(Buffer.alloc(48), 0, 48, 0)
    .catch(() => ({ buffer: Buffer.alloc(0), bytesRead: 0 }))
  return buffer.toString('latin1', 0, bytesRead)
}

async function placeOf(handle: FileHandle, path: string): Promise<string> {
  if (process.platform !== 'linux') return path
  const place = await readlink(`/proc/self/fd/${handle.fd}`).catch(() => path)
  return place.endsWith(' (deleted)') ? path : place
}

function denied(sentence: string, field: string): Refusal {
  return new Refusal('forbidden', 'denied_path', sentence, { field })
}
