/*
 * Decides whether a file may be shown, as a log source or as a file of a target. The path is checked against the deny
 * list. For an open file, three more things are checked: its real path, whether it is a hard link to one of svc's own
 * files, and whether it is an export package or a backup of svc, which contain every token.
 */
import type { BigIntStats } from 'node:fs'
import { readlink, stat, type FileHandle } from 'node:fs/promises'
import { Refusal } from '../../base/refusal.js'
import type { Deny } from './deny.js'

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
}

/** The files that are protected. */
export interface Guarded {
  deny: Deny
  /** Paths of files that are denied under any name, including hard links. */
  secrets: readonly string[]
}

/** Creates the checks. */
export function createSecrets({ deny, secrets }: Guarded): Secrets {
  function checkPath(path: string, { asked, field }: Named): void {
    const reason = deny(path)
    if (reason === null) return
    const leads = path === asked || !isAbsoluteName(asked) ? '' : `, which leads to "${path}"`
    throw denied(`Cannot read "${asked}"${leads}: ${reason}`, field)
  }

  async function checkHardLinks(stats: BigIntStats, { asked, field }: Named): Promise<void> {
    for (const secret of secrets) {
      const own = await stat(secret, { bigint: true }).catch(() => null)
      if (own?.dev === stats.dev && own.ino === stats.ino) {
        throw denied(`Cannot read "${asked}": it is a hard link to "${secret}"`, field)
      }
    }
  }

  return {
    checkPath,
    async checkOpened(handle, path, named) {
      checkPath(await placeOf(handle, path), named)
      const stats = await handle.stat({ bigint: true })
      if (!stats.isFile()) return stats
      if (stats.nlink > 1n) await checkHardLinks(stats, named)
      if (await isPackageOrBackup(handle)) {
        throw denied(
          `Cannot read "${named.asked}": it is a package or a backup of svc, which contains every token`,
          named.field
        )
      }
      return stats
    }
  }
}

/** Whether the path is absolute. A relative path is in a target, whose location the caller need not know. */
function isAbsoluteName(path: string): boolean {
  return /^(\/|[a-z]:[\\/])/i.test(path)
}

/**
 * Whether the file is an export package or a backup: a zip whose first entry is below `svc-export/` or `svc-backup/`
 * (APPNOTE 4.3.7).
 */
async function isPackageOrBackup(handle: FileHandle): Promise<boolean> {
  const { buffer, bytesRead } = await handle
    .read(Buffer.alloc(48), 0, 48, 0)
    .catch(() => ({ buffer: Buffer.alloc(0), bytesRead: 0 }))
  const head = buffer.toString('latin1', 0, bytesRead)
  return head.startsWith('PK\x03\x04') && /^svc-(export|backup)\//.test(head.slice(30))
}

async function placeOf(handle: FileHandle, path: string): Promise<string> {
  if (process.platform !== 'linux') return path
  const place = await readlink(`/proc/self/fd/${handle.fd}`).catch(() => path)
  return place.endsWith(' (deleted)') ? path : place
}

function denied(sentence: string, field: string): Refusal {
  return new Refusal('forbidden', 'denied_path', sentence, { field })
}
