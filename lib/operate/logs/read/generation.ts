/*
 * One file behind a log's name, followed from some position on. A log that is rotated is a sequence of generations.
 *
 * Each read also covers the last known bytes before `offset`. If these have changed, the file was truncated and
 * rewritten (`copytruncate`), even if it has grown past `offset` since.
 */

import { readdir, stat } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import { crc32 } from '../../../base/digests.js'
import { createLineSplitter } from '../../../base/text.js'
import { readAt } from '../../../base/files.js'
import { Refusal } from '../../../base/errors.js'
import { type Contents, contentsOf, type InflatedFiles, newline, withoutHole } from './contents.js'
import type { OpenLog } from './open.js'

/** A place in one file behind a log's name, by which the file is found again later. */
export interface LogPlace {
  /** Position in its uncompressed contents. */
  offset: number
  identity: string
  /** Checksum of the last bytes before `offset`, see `markOf`. */
  mark: number
  /** When the file was changed before this place was read. Older rotations were not changed later. */
  mtimeMs: number
}

/** Runs a read once for all who ask for it at the same moment, see `SharedLooks`. */
export type Share = (key: string, read: () => Promise<Buffer>) => Promise<Buffer>

/** A stream holds one block, its lines and their text while its client does not read (`logStreamBytes`). */
const blockBytes = 32 * 1024
/** Number of bytes by which the file is recognized. */
const markBytes = 256
/** Number of bytes by which the file of a place is recognized. */
const placeBytes = 64

const alone: Share = (_, read) => read()

export interface GenerationStart {
  identity: string
  contents: Contents
  /** The known bytes before `offset`. The file is recognized by the last of them. */
  offset: number
  mark: Buffer
  /** The last change of the file. */
  mtimeMs: number
}

/** Returns the checksum that recognizes a place after these bytes. */
export function markOf(before: Buffer): number {
  return crc32(before.subarray(-placeBytes))
}

/** Returns the bytes before a place if the contents still have them, or null. */
export async function bytesBefore({ handle, size }: Contents, { offset, mark }: LogPlace): Promise<Buffer | null> {
  if (offset > size) return null
  const length = Math.min(markBytes, offset)
  const bytes = await readAt(handle, offset - length, length)
  return bytes.length === length && markOf(bytes) === mark ? bytes : null
}

/** One file behind a log's name, and how far it has been read. */
export class Generation {
  /** Identity of the file, independent of its name. */
  readonly identity: string
  readonly #mtimeMs: number
  #contents: Contents
  #offset: number
  #readAtMs = Date.now()
  #lines: string[] = []
  // Copied: the mark may be a part of a large block.
  #known: Buffer
  // The last bytes of the lines that were handed out. `known` may end in an incomplete line that is longer.
  #told: Buffer
  // The beginning of this line was already handed out. If only its line end arrives, there is nothing to hand out.
  #isContinued: boolean
  readonly #splitter: ReturnType<typeof createLineSplitter>

  constructor({ identity, contents, offset, mark, mtimeMs }: GenerationStart) {
    this.identity = identity
    this.#mtimeMs = mtimeMs
    this.#contents = contents
    this.#offset = offset
    this.#known = Buffer.from(mark.subarray(-markBytes))
    this.#told = this.#known.subarray(-placeBytes)
    this.#isContinued = mark.length > 0 && mark[mark.length - 1] !== newline
    this.#splitter = createLineSplitter(given => {
      const line = withoutHole(given)
      // A hole may be longer than a piece of a line.
      const isHole = line === '' && given !== ''
      if (!isHole && (!this.#isContinued || line !== '')) this.#lines.push(line)
      this.#isContinued &&= isHole
    })
  }

  get contents(): Contents {
    return this.#contents
  }

  /** Position up to which the file has been read. */
  get offset(): number {
    return this.#offset
  }

  /** The last bytes before `offset`, at most `markBytes`. */
  get known(): Buffer {
    return this.#known
  }

  /** Time of the last read, on the clock of file times. */
  get readAtMs(): number {
    return this.#readAtMs
  }

  /** The place up to which its lines have been handed out. */
  place(): LogPlace {
    const offset = this.#offset - this.#splitter.heldBytes
    return { offset, identity: this.identity, mark: markOf(this.#told), mtimeMs: this.#mtimeMs }
  }

  /**
   * Reads the next lines, at most up to the position `until`. Returns null if the file was truncated and must be read
   * from its start. All lines are complete; an incomplete last line waits for its end. With `share`, followers at the
   * same position of the file share one read.
   */
  async read({
    share = alone,
    until = Infinity
  }: {
    share?: Share | undefined
    until?: number
  } = {}): Promise<{ lines: string[]; isEnd: boolean } | null> {
    const nowMs = Date.now()
    const from = this.#offset - this.#known.length
    const limit = Math.min(blockBytes, until - this.#offset)
    const wanted = this.#known.length + limit
    const read = (): Promise<Buffer> => readAt(this.#contents.handle, from, wanted)
    const bytes = await share(`${this.identity} ${from} ${wanted}`, read)
    if (!bytes.subarray(0, this.#known.length).equals(this.#known)) return null
    this.#readAtMs = nowMs
    const isEnd = bytes.length < wanted || this.#offset + limit === until
    if (bytes.length > this.#known.length) this.#take(bytes.subarray(this.#known.length))
    return { lines: this.#taken(), isEnd }
  }

  /** Continues in `copy`, which was made of the file before it was truncated. Releases the previous contents. */
  async moveTo(copy: Contents): Promise<void> {
    const before = this.#contents
    this.#contents = copy
    await before.release()
  }

  /** Returns an incomplete last line. What follows it is another line. */
  rest(): string[] {
    const isPart = this.#splitter.heldBytes > 0
    this.#splitter.end()
    if (isPart) this.#told = this.#known.subarray(-placeBytes)
    this.#isContinued ||= isPart
    return this.#taken()
  }

  release(): Promise<void> {
    return this.#contents.release()
  }

  #take(bytes: Buffer): void {
    const [before, linesEnd] = [this.#known, this.#offset - this.#splitter.heldBytes]
    this.#splitter.push(bytes)
    this.#offset += bytes.length
    if (this.#offset - this.#splitter.heldBytes !== linesEnd) this.#noteTold(before, bytes)
    this.#known = lastOf(before, bytes)
  }

  /** A line ends in `bytes`, or is cut a few bytes before them. */
  #noteTold(before: Buffer, bytes: Buffer): void {
    const end = bytes.length - this.#splitter.heldBytes
    this.#told =
      end >= placeBytes
        ? Buffer.from(bytes.subarray(end - placeBytes, end))
        : Buffer.concat([before, bytes])
            .subarray(0, before.length + end)
            .subarray(-placeBytes)
  }

  #taken(): string[] {
    const all = this.#lines
    this.#lines = []
    return all
  }
}

/** Returns the last bytes of both. */
function lastOf(before: Buffer, bytes: Buffer): Buffer {
  return Buffer.from(
    bytes.length >= markBytes ? bytes.subarray(-markBytes) : Buffer.concat([before, bytes]).subarray(-markBytes)
  )
}

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
