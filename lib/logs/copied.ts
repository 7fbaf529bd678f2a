/*
 * What `copytruncate` leaves of the old file: a copy beside it. Lines that were written before the copy was made, and
 * had not been read when the file was truncated, are nowhere else.
 *
 * The copy is known by its contents, whatever its name: it is as young as what is missing, and contains, at the same place,
 * what was read last. Names decide only the order: `app.log.1`, then `app-20260131.log` (logrotate's `extension`) and
 * `app__2026-01-31_00-00-10.log` (pm2-logrotate), then the others. Older rotations keep their times when they are renamed.
 * One that was compressed at once (`app.log.1.gz`) has the time of what it was made of, and is looked at inflated, if its
 * name begins as that of the log does.
 */
import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
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

/** The copy in which `truncated` goes on, or ends where it was read to, open; null: there is none. The caller releases it. */
export async function findCopy(
  needs: CopyNeeds, path: string, truncated: Generation, signal: AbortSignal
): Promise<Contents | null> {
  if (truncated.known.length === 0) return null
  const found = await lookBeside(needs, path, truncated, signal)
  if (found !== 'vanished') return found
  // What a name was there for a moment ago has been compressed meanwhile.
  const again = await lookBeside(needs, path, truncated, signal)
  return again === 'vanished' ? null : again
}

async function lookBeside(
  { openLog, inflated }: CopyNeeds, path: string, { readAtMs, known, offset }: Generation, signal: AbortSignal
): Promise<Contents | null | 'vanished'> {
  let hasVanished = false
  for (const name of await namesBeside(path)) {
    const place = join(dirname(path), name)
    const stats = await stat(place).catch(() => null)
    if (stats !== null && stats.mtimeMs < readAtMs - coarseMs) continue
    const contents = await openLog(place).then(log => contentsOf(log, inflated, signal)).catch(unlessRefused)
    if (contents instanceof Refusal) {
      if (contents.code === 'file_missing') hasVanished = true
      continue
    }
    const same = await readAt(contents.handle, offset - known.length, known.length).catch(() => Buffer.alloc(0))
    // Inflated it is what it was copied from, and read as that.
    // One that ends there says that nothing is missing.
    if (contents.size >= offset && same.equals(known)) return { ...contents, isCompressed: false }
    await contents.release()
  }
  return hasVanished ? 'vanished' : null
}

const compressedName = /\.(gz|bz2|xz|zst|zip)$/i

/** The files beside a log, those first that are most likely its copy. */
async function namesBeside(path: string): Promise<string[]> {
  const name = basename(path)
  const stem = name.slice(0, name.length - extname(name).length)
  const names = (await readdir(dirname(path)).catch(() => [])).filter(other => other !== name).sort()
  const own = names.filter(other => other.startsWith(`${name}.`) || other.startsWith(`${name}-`))
  const alike = names.filter(other => other.startsWith(stem) && !own.includes(other))
  const others = names.filter(other => !other.startsWith(stem) && !compressedName.test(other))
  return [...own, ...alike, ...others].slice(0, maxNames)
}

function unlessRefused(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  throw error
}
