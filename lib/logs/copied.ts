/*
 * What `copytruncate` leaves of the old file: a copy beside it. Lines that were written before the copy was made, and
 * had not been read when the file was truncated, are nowhere else.
 *
 * The copy is known by its name (`app.log.1`, `app.log-20260131`), by being as young as what is missing, and by holding,
 * at the same place, what was read last. Older rotations keep their times when they are renamed.
 */
import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Refusal } from '../base/refusal.js'
import { contentsOf, readAt, type Contents } from './contents.js'
import type { Generation } from './generation.js'
import type { InflatedFiles } from './inflated.js'
import type { OpenLog } from './open.js'

/** How far behind the clock the times of files may be. */
const coarseMs = 100
/** Of the names beside a log so many are looked at; nobody keeps more rotations. */
const maxNames = 1_000

export interface CopyNeeds {
  openLog: OpenLog
  inflated: InflatedFiles
}

/** The copy in which `truncated` goes on, open; null: there is none. Whoever gets it releases it. */
export async function findCopy(
  { openLog, inflated }: CopyNeeds, path: string, truncated: Generation, signal: AbortSignal
): Promise<Contents | null> {
  const { known, offset } = truncated
  if (known.length === 0) return null
  for (const name of await namesBeside(path)) {
    const place = join(dirname(path), name)
    const stats = await stat(place).catch(() => null)
    if (stats === null || stats.size <= offset || stats.mtimeMs < truncated.readAtMs - coarseMs) continue
    const contents = await openLog(place).then(log => contentsOf(log, inflated, signal), unlessRefused)
    if (contents === null) continue
    const same = await readAt(contents.handle, offset - known.length, known.length).catch(() => Buffer.alloc(0))
    if (!contents.isCompressed && same.equals(known)) return contents
    await contents.release()
  }
  return null
}

async function namesBeside(path: string): Promise<string[]> {
  const name = basename(path)
  const names = await readdir(dirname(path)).catch(() => [])
  return names.filter(other => other.startsWith(`${name}.`) || other.startsWith(`${name}-`)).sort().slice(0, maxNames)
}

function unlessRefused(error: unknown): null {
  if (error instanceof Refusal) return null
  throw error
}
