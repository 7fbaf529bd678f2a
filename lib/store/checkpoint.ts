/**
 * Checkpoints: svc.db written anew from memory, and the redo log begun anew.
 *
 *   1. note the number of the last transaction that ran, in the database itself; take its image
 *   2. wait until that transaction is durable (when it is refused, the image is dropped)
 *   3. svc.db.tmp written, synced, renamed over svc.db, the rename synced
 *   4. between two lines: a new redo log with the lines written meanwhile, renamed over the old one
 *
 * None of it holds up the process: an image takes no time (page-file.ts), and writes go on through 2 and 3. A crash at any point leaves a svc.db and
 * a redo log that fit: lines whose number svc.db has are passed over.
 */
import { dirname } from 'node:path'
import type { Clock } from '../base/clock.js'
import type { Disk } from './disk.js'
import type { GroupCommit } from './group-commit.js'
import type { Memory } from './memory.js'
import type { Image } from './page-file.js'
import type { RedoFile } from './redo-file.js'

export interface Checkpoints {
  /** Folds everything that has run so far; `force`: also when svc.db holds it already. */
  fold(options?: { force?: boolean }): Promise<void>
  /** A write is durable: folds in the background once the redo log is long enough, or nothing more comes for a while. */
  consider(): void
  /** Folds in the background; says so when it fails, since no write is lost by it. */
  begin(): void
  /** Ends the waiting, and waits for the one that runs. */
  stop(): Promise<void>
}

export interface CheckpointOptions {
  disk: Disk
  path: string
  clock: Clock
  redo: RedoFile
  commits: GroupCommit
  /** The database in memory; throws when there is none. */
  memory: () => Memory
  /** Resolves once svc.db is known to be whole; until then, and when it rejects, it is not written over. */
  verified: () => Promise<void>
  /** The number of the last write that svc.db holds. */
  held: number
  idleMs: number
  foldBytes: number
  warn: (sentence: string) => void
}

/** The redo log may become this part of svc.db before it is folded in, so that folding costs little beside writing. */
const largestShare = 1 / 8

/** Nothing is folded before it is asked for. */
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
    const from = redo.end
    try {
      await commits.settled()
      await replaceFile(disk, path, image)
    } finally {
      image.release()
    }
    held = upTo
    await commits.between(() => redo.restart(upTo, from))
    foldAt = Math.max(foldBytes, image.bytes * largestShare)
  }

  /** One at a time; whoever asks while one runs gets the next. */
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
      options.warn(`could not write "${path}" anew, its redo log grows until it can: ${error.message}`)
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

/** The image of a database, which says itself that it holds the writes up to `upTo`. The caller releases it. */
export function stampedImage(memory: Memory, upTo: number, clock: Clock): Image {
  return memory.image('UPDATE store SET sequence = ?, writtenAt = ?', [upTo, new Date(clock.now()).toISOString()])
}

/**
 * Puts an image in the place of the file at `path`, which is at every moment either the old one or the new one, whole:
 * written beside it, synced, renamed, and the rename synced. When it rejects before the rename, nothing has changed.
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
