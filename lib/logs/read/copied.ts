/*
 * What `copytruncate` leaves of the old file: a copy in the same directory. Lines that were written before the copy
 * was made, and were not read before the file was truncated, exist only there.
 *
 * The copy is recognized by its contents, whatever its name: its time is not older than the last read, and it contains
 * the bytes that were read last, at the same position. Names only decide the order: first `app.log.1`, then
 * `app-20260131.log` (logrotate's `extension`) and `app__2026-01-31_00-00-10.log` (pm2-logrotate), then all others.
 * Older rotations keep their times when they are renamed. A copy that was compressed at once (`app.log.1.gz`) has the
 * time of its original. It is decompressed and checked if its name begins like that of the log.
 */
import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { readAt } from '../../base/files.js'
import { contentsOf, type Contents } from './contents.js'
import type { Generation } from './generation.js'
import type { InflatedFiles } from './inflated.js'
import type { OpenLog } from './open.js'

/** File times may be this far behind the clock. */
const coarseMs = 100
/** Maximum number of files beside a log that are checked. No setup keeps more rotations. */
const maxNames = 1_000

/** The contents of a copy. */
export interface Copy extends Contents {
  /** Identity of the file, and its last change. */
  identity: string
  mtimeMs: number
}

/** What `findCopy` needs. */
export interface CopyNeeds {
  openLog: OpenLog
  inflated: InflatedFiles
}

/** A log that was truncated while it was read. */
export interface TruncatedLog {
  path: string
  /** The contents of the log before it was truncated. */
  generation: Generation
  signal: AbortSignal
}

/**
 * Returns the copy that contains the rest of a truncated log, which may be empty, or null if there is no such copy. The
 * caller releases it.
 */
export async function findCopy(needs: CopyNeeds, truncated: TruncatedLog): Promise<Copy | null> {
  if (truncated.generation.known.length === 0) return null
  const found = await lookBeside(needs, truncated)
  if (found !== 'vanished') return found
  // A file that was listed a moment ago has been compressed since.
  const again = await lookBeside(needs, truncated)
  return again === 'vanished' ? null : again
}

async function lookBeside(
  { openLog, inflated }: CopyNeeds,
  { path, generation: { readAtMs, known, offset }, signal }: TruncatedLog
): Promise<Copy | null | 'vanished'> {
  let hasVanished = false
  for (const name of await namesBeside(path)) {
    const place = join(dirname(path), name)
    const stats = await stat(place).catch(() => null)
    if (stats !== null && stats.mtimeMs < readAtMs - coarseMs) continue
    const contents = await openLog(place)
      .then(async log => ({
        ...(await contentsOf(log, inflated, signal)),
        identity: log.identity,
        mtimeMs: log.mtimeMs
      }))
      .catch(unlessRefused)
    if (contents instanceof Refusal) {
      if (contents.code === 'file_missing') hasVanished = true
      continue
    }
    const same = await readAt(contents.handle, offset - known.length, known.length).catch(() => Buffer.alloc(0))
    // If it ends at this position, nothing is missing.
    if (contents.size >= offset && same.equals(known)) return contents
    await contents.release()
  }
  return hasVanished ? 'vanished' : null
}

const compressedName = /\.(gz|bz2|xz|zst|zip)$/i

/** Returns the names of the files beside a log, the most likely copies first. */
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
