/**
 * Checkpoints: write svc.db from memory and start a new redo log.
 *
 *   1. Record the number of the last executed transaction in the database itself, and take an image of the database.
 *   2. Wait until that transaction is durable. If it is refused, drop the image.
 *   3. Write svc.db.tmp, sync it, rename it over svc.db, and sync the rename.
 *   4. Between two lines of the redo log: write a new redo log with the lines written since step 1, and rename it over
 *      the old one.
 *
 * A checkpoint does not block the process: an image takes no time (page-file.ts), and writes continue during steps 2
 * and 3. After a crash at any point, svc.db and the redo log fit together: recovery skips the lines whose number svc.db
 * already includes.
 */
import { dirname } from 'node:path'
import { type Clock, instantOf } from '../base/clock.js'
import type { Disk } from './disk.js'
import type { GroupCommit } from './group-commit.js'
import type { Memory } from './memory.js'
import type { Image } from './page-file.js'

/** Writes checkpoints, on request and in the background. */
export interface Checkpoints {
  /** Writes a checkpoint with everything executed so far. With `force`, also if svc.db is already up to date. */
  fold(options?: { force?: boolean }): Promise<void>
  /**
   * To be called after each durable write. Writes a checkpoint in the background if the redo log is long enough, or
   * after a while without writes.
   */
  consider(): void
  /** Writes a checkpoint in the background. If it fails, only a warning is logged, because no write is lost. */
  begin(): void
  /** Cancels the timer and waits for the checkpoint in progress. */
  stop(): Promise<void>
}

/** Options of `createCheckpoints`. */
export interface CheckpointOptions {
  disk: Disk
  path: string
  clock: Clock
  /** The redo log beside svc.db. */
  redo: { readonly end: number; mark(): void; trim(upTo: number): Promise<void> }
  commits: Pick<GroupCommit, 'executed' | 'settled' | 'between'>
  /** Returns the database in memory; throws if there is none. */
  memory: () => Memory
  /** Resolves once svc.db is known to be undamaged. Until then, or if it rejects, svc.db is not overwritten. */
  verified: () => Promise<void>
  /** The number of the last write in svc.db. */
  held: number
  /** Time without a write after which a checkpoint begins. */
  idleMs: number
  /** Size of the redo log at which a checkpoint begins. */
  foldBytes: number
  warn: (sentence: string) => void
}

/**
 * A checkpoint begins when the redo log reaches this fraction of svc.db (and `foldBytes`), so that checkpoints cost
 * little compared with writes.
 */
const largestShare = 1 / 8

/** Creates the checkpoints of a store. None begins before a call. */
export function createCheckpoints(options: CheckpointOptions): Checkpoints {
  const { disk, path, clock, redo, commits, foldBytes } = options
  let { held } = options
  let foldAt = Math.max(foldBytes, (disk.size(path) ?? 0) * largestShare)
  let running: Promise<void> | null = null
  let idle: NodeJS.Timeout | undefined

  async function foldNow(force: boolean): Promise<void> {
    await options.verified()
    const upTo = commits.executed
    if (upTo === held && !force) return
    const image = stampedImage(options.memory(), upTo, clock)
    redo.mark()
    try {
      await commits.settled()
      await replaceFile(disk, path, image)
    } finally {
      image.release()
    }
    held = upTo
    await commits.between(() => redo.trim(upTo))
    foldAt = Math.max(foldBytes, image.bytes * largestShare)
  }

  /** Only one checkpoint runs at a time; a call during one waits and then writes the next. */
  async function fold({ force = false } = {}): Promise<void> {
    while (running !== null) await running.catch(() => {})
    running = foldNow(force)
    try {
      await running
    } finally {
      running = null
    }
  }

  function begin(): void {
    if (running !== null) return
    fold().catch((error: Error) => {
      foldAt = redo.end + foldBytes
      options.warn(`Cannot write a checkpoint to "${path}": ${error.message}. The redo log grows until that succeeds`)
    })
  }

  return {
    fold,
    begin,
    consider() {
      if (redo.end >= foldAt) begin()
      idle ??= setTimeout(begin, options.idleMs).unref()
      idle.refresh()
    },
    async stop() {
      clearTimeout(idle)
      while (running !== null) await running.catch(() => {})
    }
  }
}

/** Returns an image of a database that records that it includes the writes up to `upTo`. The caller releases it. */
export function stampedImage(memory: Memory, upTo: number, clock: Clock): Image {
  // SQLite writes no page that stays as it is, and a second image of the same moment would have the same stamp.
  memory.run("UPDATE store SET writtenAt = ''", [])
  return memory.image('UPDATE store SET sequence = ?, writtenAt = ?', [upTo, instantOf(clock)])
}

/**
 * Replaces the file at `path` with an image. At every moment the path has either the complete old file or the complete
 * new one: the image is written to `<path>.tmp`, synced, renamed, and the rename is synced. If this rejects before the
 * rename, nothing has changed.
 */
export async function replaceFile(disk: Disk, path: string, image: Image): Promise<void> {
  const beside = `${path}.tmp`
  try {
    const file = await disk.create(beside)
    try {
      let at = 0
      for (const piece of image.pieces) {
        await file.write(piece, at)
        at += piece.length
      }
      await file.sync()
    } finally {
      await file.close()
    }
    await disk.rename(beside, path)
  } catch (error) {
    await disk.remove(beside).catch(() => {})
    throw error
  }
  await disk.syncDirectory(dirname(path))
}
