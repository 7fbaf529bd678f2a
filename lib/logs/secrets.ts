/*
 * Whether a file may be shown: a log source, and a file of a target. A path is held against the deny list; a file that is
 * open is asked where it really lies, whether it is another name of one of svc's own, and whether it is a package or a
 * backup of svc, which hold every token.
 */
import type { BigIntStats } from 'node:fs'
import { readlink, stat, type FileHandle } from 'node:fs/promises'
import { Refusal } from '../base/refusal.js'
import type { Deny } from './deny.js'

/** How a refusal names the file: by the path that was asked for, and the field it stood in. */
export interface Named {
  asked: string
  field: string
}

export interface Secrets {
  /** Refuses (403 `denied_path`) a path on the deny list. */
  checkPath(path: string, named: Named): void
  /** Refuses (403 `denied_path`) an open file; `path` is where it lay when it was opened, without links. */
  checkOpened(handle: FileHandle, path: string, named: Named): Promise<BigIntStats>
}

export interface Guarded {
  deny: Deny
  /** Paths whose files are shut by whatever name they are asked for: hard links. */
  secrets: readonly string[]
}

export function createSecrets({ deny, secrets }: Guarded): Secrets {
  function checkPath(path: string, { asked, field }: Named): void {
    const reason = deny(path)
    if (reason === null) return
    const leads = path === asked || !isAbsoluteName(asked) ? `"${asked}"` : `"${asked}" leads to "${path}", which`
    throw denied(`${leads} may not be read: ${reason}`, field)
  }

  async function checkHardLinks(stats: BigIntStats, { asked, field }: Named): Promise<void> {
    for (const secret of secrets) {
      const own = await stat(secret, { bigint: true }).catch(() => null)
      if (own?.dev === stats.dev && own.ino === stats.ino) {
        throw denied(`"${asked}" may not be read: it is a link to "${secret}"`, field)
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
      if (await holdsEverything(handle)) {
        throw denied(`"${named.asked}" may not be read: it is a package or a backup of svc, which holds every token`, named.field)
      }
      return stats
    }
  }
}

/** Relative names are those of a target: its place says nothing to who asked. */
function isAbsoluteName(path: string): boolean {
  return /^(\/|[a-z]:[\\/])/i.test(path)
}

/** A zip whose first entry lies below `svc-export/` or `svc-backup/`: what export and backup write (APPNOTE 4.3.7). */
async function holdsEverything(handle: FileHandle): Promise<boolean> {
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(48), 0, 48, 0).catch(() => ({ buffer: Buffer.alloc(0), bytesRead: 0 }))
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
