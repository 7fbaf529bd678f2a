/*
 * Following a log file (§6.3), across whatever rotates it:
 *
 *   renamed            the old file is read to its end, and watched for a while longer, because its writer may not know yet
 *   truncated          known by its size, or by what stands before the place that was reached (generation.ts); where it
 *                      was copied before (`copytruncate`), the copy is read to its end (copied.ts); where there is none,
 *                      a `gap` event says how much is known to be lost: what the file had when it was looked at last
 *   deleted, made anew the old one stays open, so that its inode is not used again for the new one
 *   missing, denied    an `error` event says so once; the stream goes on when the file is there
 *
 * After a rotation the new file is shown from its first line, so that nothing is lost or doubled in the gap. A follower
 * reads the file from where it is: one that is slow holds nothing but its place.
 */
import type { Clock } from '../base/clock.js'
import { Refusal } from '../base/refusal.js'
import { contentsOf, readAt } from './contents.js'
import { findCopy } from './copied.js'
import { createGeneration, type Generation, type Share } from './generation.js'
import type { InflatedFiles } from './inflated.js'
import { identityAt, type OpenedLog, type OpenLog } from './open.js'
import type { SharedLooks } from './shared-looks.js'
import { cutAfter, isBinary, linesOf, newline } from './text.js'
import type { FileWatcher } from './watch.js'

/** `id`: `<bytes>@<file>`, up to where the file that has the name now has been told; lines of an older file have none. */
export type TailEvent =
  | { event: 'snapshot'; id: string; data: { lines: string[]; size: number; binary: boolean } }
  | { event: 'lines'; id?: string; data: { lines: string[] } }
  | { event: 'rotated'; data: { at: string } }
  /** Here at least so many bytes of the old file were lost; 0: it is not known whether any were. */
  | { event: 'gap'; data: { bytes: number } }
  | { event: 'error'; data: { message: string } }

export interface TailNeeds {
  openLog: OpenLog
  inflated: InflatedFiles
  watcher: FileWatcher
  looks: SharedLooks
  clock: Clock
}

export interface TailOptions {
  filePath: string
  /** Lines of the first snapshot. */
  tailLines: number
  /** §8: the first line of a quiet file goes at once, those after it together, this long after. */
  batchMs?: number
  signal: AbortSignal
}

type Emit = (event: TailEvent) => Promise<void>

/** §8 */
const defaultBatchMs = 500
/** A snapshot's bytes: 5,000 lines of an access log. */
const maxSnapshotBytes = 2 * 1024 * 1024
const tailBlockBytes = 64 * 1024
/** A new file up to this size is shown from its start; a larger one was not written in the gap, and is shown by its end. */
const maxGapBytes = 16 * 1024 * 1024
/** How long the old file of a rotation is read on: until its writer has opened the new one. */
const leavingMs = 10_000
/** How often, where no notice tells; and how long a file must be missing before it is said. */
const lookMs = 1_500

/** Tells what happens to a log, event by event, until the signal is aborted: then it rejects with its reason. */
export async function followLog(needs: TailNeeds, options: TailOptions, emit: Emit): Promise<void> {
  const watch = needs.watcher.watch(options.filePath)
  const tail = new Tail(needs, options, emit)
  try {
    for (;;) {
      const since = watch.wakes
      await tail.step(since)
      await watch.woken(since, { ...tail.patience(), signal: options.signal })
      await tail.awaitBatch()
    }
  } finally {
    watch.release()
    await tail.close()
  }
}

class Tail {
  readonly #needs: TailNeeds
  readonly #options: TailOptions
  readonly #emit: Emit
  #current: Generation | null = null
  #currentKey = ''
  #isBinary = false
  /** The size of the current file when it was looked at last. */
  #seenBytes = 0
  #leaving: { generation: Generation; untilMs: number } | null = null
  #missingSinceMs: number | null = null
  #told = ''
  #linesSentAtMs = -Infinity

  constructor(needs: TailNeeds, options: TailOptions, emit: Emit) {
    this.#needs = needs
    this.#options = options
    this.#emit = emit
  }

  /** Looks once at everything that may have changed by the notice `notices`; all who follow it look together. */
  async step(notices: number): Promise<void> {
    const { looks } = this.#needs
    const { filePath } = this.#options
    if (this.#leaving !== null) await this.#readLeaving()
    if (this.#current === null) return await this.#begin()
    // The one who reads for all may leave, and close the file: then each reads for itself.
    const share: Share = (key, read) => looks(`${notices} ${key}`, read).catch(read)
    if (!(await this.#readOn(this.#current, share))) return await this.#beginAnew()
    const found = await looks(`${notices} ${filePath}`, () => identityAt(filePath))
    if (found === null) return await this.#noteMissing()
    this.#missingSinceMs = null
    this.#told = ''
    const isSame = found.identity === this.#current.identity
    if (isSame) this.#seenBytes = found.size
    if (isSame && (!this.#current.contents.isCompressed || found.key === this.#currentKey)) return
    await this.#replace()
  }

  /** How long to wait for a notice at most. */
  patience(): { withinMs?: number } {
    const isUneasy = this.#leaving !== null || (this.#missingSinceMs !== null && this.#told === '')
    return isUneasy ? { withinMs: lookMs } : {}
  }

  async awaitBatch(): Promise<void> {
    const { batchMs = defaultBatchMs, signal } = this.#options
    await pause(this.#linesSentAtMs + batchMs - performance.now(), signal)
  }

  async close(): Promise<void> {
    await this.#current?.release()
    await this.#leaving?.generation.release()
  }

  async #begin(): Promise<void> {
    const next = await this.#open('tail')
    if (next === null) return
    this.#take(next)
    await this.#showSnapshot(next)
  }

  async #showSnapshot({ snapshot, generation }: Opened): Promise<void> {
    await this.#emit({ event: 'snapshot', id: placeOf(generation), data: snapshot })
  }

  /** The same file, truncated. */
  async #beginAnew(): Promise<void> {
    const next = await this.#open('start')
    if (next === null) return
    const [old, seenBytes] = [this.#current, this.#seenBytes]
    this.#take(next)
    if (old !== null) await this.#finishTruncated(old, seenBytes)
    await this.#showRotated(next)
  }

  async #finishTruncated(old: Generation, seenBytes: number): Promise<void> {
    try {
      const copy = await findCopy(this.#needs, this.#options.filePath, old, this.#options.signal)
      if (copy !== null) {
        await old.moveTo(copy)
        await this.#readOn(old)
      }
      await this.#sendLines(old.rest())
      if (copy === null && !this.#isBinary) await this.#emit({ event: 'gap', data: { bytes: Math.max(0, seenBytes - old.offset) } })
    } finally {
      await old.release()
    }
  }

  /** Another file has the name now. */
  async #replace(): Promise<void> {
    const next = await this.#open('start')
    if (next === null) return
    const old = this.#current
    this.#take(next)
    if (this.#leaving !== null) await this.#finishLeaving()
    if (old !== null) {
      this.#leaving = { generation: old, untilMs: performance.now() + leavingMs }
      await this.#readOn(old)
    }
    await this.#showRotated(next)
  }

  #take(next: Opened): void {
    this.#current = next.generation
    this.#currentKey = next.key
    this.#isBinary = next.snapshot.binary
    this.#seenBytes = next.end
    this.#missingSinceMs = null
    this.#told = ''
  }

  async #showRotated(next: Opened): Promise<void> {
    await this.#emit({ event: 'rotated', data: { at: new Date(this.#needs.clock.now()).toISOString() } })
    await this.#showSnapshot(next)
  }

  /** False: it was truncated. */
  async #readOn(generation: Generation, share?: Share): Promise<boolean> {
    for (;;) {
      const read = await generation.read(share)
      if (read === null) return false
      if (!read.isEnd && generation === this.#current) this.#seenBytes = Math.max(this.#seenBytes, (await generation.contents.handle.stat()).size)
      await this.#sendLines(read.lines, generation === this.#current ? placeOf(generation) : undefined)
      if (read.isEnd) return true
    }
  }

  async #readLeaving(): Promise<void> {
    const { generation, untilMs } = this.#leaving as { generation: Generation; untilMs: number }
    await this.#readOn(generation)
    if (performance.now() >= untilMs) await this.#finishLeaving()
  }

  async #finishLeaving(): Promise<void> {
    const leaving = this.#leaving
    if (leaving === null) return
    this.#leaving = null
    try {
      await this.#sendLines(leaving.generation.rest())
    } finally {
      await leaving.generation.release()
    }
  }

  async #sendLines(lines: string[], id?: string): Promise<void> {
    if (lines.length === 0 || this.#isBinary) return
    await this.#emit({ event: 'lines', ...(id === undefined ? {} : { id }), data: { lines } })
    this.#linesSentAtMs = performance.now()
  }

  async #noteMissing(): Promise<void> {
    const now = performance.now()
    this.#missingSinceMs ??= now
    // A rename leaves the name free for a moment: that is no fault.
    if (now - this.#missingSinceMs < lookMs) return
    await this.#tell(`"${this.#options.filePath}" does not exist any more: the stream goes on when it is there again`)
  }

  async #tell(message: string): Promise<void> {
    if (message === this.#told) return
    this.#told = message
    await this.#emit({ event: 'error', data: { message } })
  }

  /** Null: it cannot be opened now, and that has been told. */
  async #open(from: 'tail' | 'start'): Promise<Opened | null> {
    const { filePath, tailLines, signal } = this.#options
    try {
      const log = await this.#needs.openLog(filePath)
      const { identity } = log
      const key = keyOf(log)
      const contents = await contentsOf(log, this.#needs.inflated, signal)
      const shown = await readSnapshot(contents, { from, tailLines }).catch(async error => {
        await contents.release()
        throw error
      })
      return { ...shown, generation: createGeneration({ identity, contents, offset: shown.end, mark: shown.mark }), key }
    } catch (error) {
      if (!(error instanceof Refusal) || signal.aborted) throw error
      await this.#tell(error.code === 'file_missing' ? `${error.message} yet: the stream begins when it is there` : error.message)
      return null
    }
  }
}

interface Snapshot {
  snapshot: { lines: string[]; size: number; binary: boolean }
  /** Up to where the file was shown. */
  end: number
  mark: Buffer
}

interface Opened extends Snapshot {
  generation: Generation
  key: string
}

function placeOf({ linesEnd, identity }: Generation): string {
  return `${linesEnd}@${identity}`
}

function keyOf({ identity, size, mtimeMs }: OpenedLog): string {
  return `${identity} ${size} ${mtimeMs}`
}

type Contents = Awaited<ReturnType<typeof contentsOf>>

async function readSnapshot(
  contents: Contents, { from, tailLines }: { from: 'tail' | 'start'; tailLines: number }
): Promise<Snapshot> {
  const { handle, size } = contents
  const isGap = from === 'start' && !contents.isCompressed && size <= maxGapBytes
  const bytes = isGap ? await readStart(handle, tailLines) : await readTail(handle, size, tailLines)
  const binary = isBinary(bytes)
  const end = isGap ? bytes.length : size
  // Nothing was shown, but the file must be known all the same.
  const mark = bytes.length > 0 ? bytes.subarray(-markBytes) : await readAt(handle, Math.max(0, end - markBytes), Math.min(end, markBytes))
  return { snapshot: { lines: binary ? [] : linesOf(bytes), size, binary }, end, mark }
}

const markBytes = 256

/** The first lines of a file, whole; the rest follows as lines. */
async function readStart(handle: Contents['handle'], maxLines: number): Promise<Buffer> {
  const bytes = await readAt(handle, 0, maxSnapshotBytes)
  let end = -1
  for (let count = 0; count < Math.max(1, maxLines); count++) {
    const next = bytes.indexOf(newline, end + 1)
    if (next === -1) return bytes.subarray(0, end + 1)
    end = next
  }
  return bytes.subarray(0, end + 1)
}

/** The last lines of a file, read backwards; with what follows the last newline. */
async function readTail(handle: Contents['handle'], size: number, maxLines: number): Promise<Buffer> {
  if (maxLines === 0) return Buffer.alloc(0)
  const blocks: Buffer[] = []
  let at = size
  let missing = maxLines
  while (at > 0 && size - at < maxSnapshotBytes) {
    const from = Math.max(0, at - tailBlockBytes)
    const block = await readAt(handle, from, at - from)
    // The newline that ends the file begins no line.
    let found = at === size ? block.length - 1 : block.length
    while (found > 0 && (found = block.lastIndexOf(newline, found - 1)) !== -1) {
      if (--missing > 0) continue
      blocks.unshift(block.subarray(found + 1))
      return Buffer.concat(blocks)
    }
    blocks.unshift(block)
    at = from
  }
  const bytes = Buffer.concat(blocks)
  if (at === 0) return bytes
  // Too long: from the first whole line, or the last part of a line that has no beginning in reach.
  const first = bytes.indexOf(newline)
  return bytes.subarray(first === -1 || first === bytes.length - 1 ? cutAfter(bytes, 0) : first + 1)
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (ms <= 0) return
  let resume = (): void => {}
  let timer: NodeJS.Timeout | undefined
  await new Promise<void>(resolve => {
    resume = resolve
    timer = setTimeout(resume, ms)
    signal.addEventListener('abort', resume)
  })
  clearTimeout(timer)
  signal.removeEventListener('abort', resume)
  signal.throwIfAborted()
}
