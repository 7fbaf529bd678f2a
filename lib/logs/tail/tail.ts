/*
 * Follows a log file (§6.3) across every kind of rotation:
 *
 *   renamed            the old file is read to its end, and for a while longer, because its writer may not know yet
 *   truncated          recognized by its size, or by the bytes before the current position (generation.ts). If it was
 *                      copied before (`copytruncate`), the copy is read to its end (copied.ts). Otherwise a `gap` event
 *                      says how many bytes are known to be lost: those that the file had when it was last checked
 *   deleted            the old file stays open, so that its inode is not reused for a new one of the same name
 *   missing, denied    one `error` event; the stream continues when the file is available again
 *
 * After a rotation the new file is shown from its first line, so that nothing is lost or doubled. A slow follower
 * keeps only its position in the file, no data.
 */
import { type Clock, instantOf } from '../../base/clock.js'
import { Refusal } from '../../base/refusal.js'
import { readAt } from '../../base/read-at.js'
import { contentsOf } from '../read/contents.js'
import { findCopy } from '../read/copied.js'
import { createGeneration, type Generation, type Share } from '../read/generation.js'
import type { InflatedFiles } from '../read/inflated.js'
import { identityAt, type OpenedLog, type OpenLog } from '../read/open.js'
import type { SharedLooks } from './shared-looks.js'
import { cutAfter, isBinary, linesOf, newline } from '../read/text.js'
import type { FileWatcher } from './watch.js'

/**
 * Events of a followed log. `id` is `<bytes>@<file>`: the position in the current file up to which lines were sent.
 * Lines of an older file have no id.
 */
export type TailEvent =
  | { event: 'snapshot'; id: string; data: { lines: string[]; size: number; binary: boolean } }
  | { event: 'lines'; id?: string; data: { lines: string[] } }
  | { event: 'rotated'; data: { at: string } }
  /** At least this many bytes of the old file were lost here; 0 if it is unknown whether any were lost. */
  | { event: 'gap'; data: { bytes: number } }
  | { event: 'error'; data: { message: string } }

/** What `followLog` needs. */
export interface TailNeeds {
  openLog: OpenLog
  inflated: InflatedFiles
  watcher: FileWatcher
  looks: SharedLooks
  clock: Clock
}

/** Which file is followed, and how. */
export interface TailOptions {
  filePath: string
  /** Number of lines in the first snapshot. */
  tailLines: number
  /** §8: the first line after a silence is sent at once. Further lines are collected and sent after this time. */
  batchMs?: number
  signal: AbortSignal
}

type Emit = (event: TailEvent) => Promise<void>

/** §8 */
const defaultBatchMs = 500
/** Maximum size of a snapshot: 5,000 lines of an access log. */
const maxSnapshotBytes = 2 * 1024 * 1024
const tailBlockBytes = 64 * 1024
/**
 * A new file up to this size is shown from its start. A larger one was not written since the last check and is shown
 * from its end.
 */
const maxGapBytes = 16 * 1024 * 1024
/** How long the old file of a rotation is still read: until its writer has opened the new one. */
const leavingMs = 10_000
/** Interval of checks without a notice. Also the time that a file must be missing before this is reported. */
const lookMs = 1_500

/** Emits the events of a log until the signal is aborted. Then it rejects with the signal's reason. */
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
  /** Size of the current file at the last check. */
  #seenBytes = 0
  #leaving: { generation: Generation; untilMs: number } | null = null
  #missingSinceMs: number | null = null
  #reported = ''
  #linesSentAtMs = -Infinity

  constructor(needs: TailNeeds, options: TailOptions, emit: Emit) {
    this.#needs = needs
    this.#options = options
    this.#emit = emit
  }

  /** Checks everything that may have changed by the notice `notices`. All followers of the file share the check. */
  async step(notices: number): Promise<void> {
    const { looks } = this.#needs
    const { filePath } = this.#options
    if (this.#leaving !== null) await this.#readLeaving()
    if (this.#current === null) return await this.#begin()
    // The follower that reads for all may leave and close the file. Then each follower reads for itself.
    const share: Share = (key, read) => looks(`${notices} ${key}`, read).catch(read)
    if (!(await this.#readOn(this.#current, share))) return await this.#beginAnew()
    const found = await looks(`${notices} ${filePath}`, () => identityAt(filePath))
    if (found === null) return await this.#noteMissing()
    this.#missingSinceMs = null
    this.#reported = ''
    const isSame = found.identity === this.#current.identity
    if (isSame) this.#seenBytes = found.size
    if (isSame && (!this.#current.contents.isCompressed || found.key === this.#currentKey)) return
    await this.#replace()
  }

  /** Returns how long to wait for a notice at most. */
  patience(): { withinMs?: number } {
    const isUneasy = this.#leaving !== null || (this.#missingSinceMs !== null && this.#reported === '')
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

  /** Starts again in the same file after it was truncated. */
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
      const { filePath: path, signal } = this.#options
      const copy = await findCopy(this.#needs, { path, generation: old, signal })
      if (copy !== null) {
        await old.moveTo(copy)
        await this.#readOn(old)
      }
      await this.#sendLines(old.rest())
      if (copy === null && !this.#isBinary)
        await this.#emit({ event: 'gap', data: { bytes: Math.max(0, seenBytes - old.offset) } })
    } finally {
      await old.release()
    }
  }

  /** Continues with another file that has the name now. */
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
    this.#reported = ''
  }

  async #showRotated(next: Opened): Promise<void> {
    await this.#emit({ event: 'rotated', data: { at: instantOf(this.#needs.clock) } })
    await this.#showSnapshot(next)
  }

  /** Sends what was appended. Returns false if the file was truncated. */
  async #readOn(generation: Generation, share?: Share): Promise<boolean> {
    for (;;) {
      const read = await generation.read(share)
      if (read === null) return false
      if (!read.isEnd && generation === this.#current)
        this.#seenBytes = Math.max(this.#seenBytes, (await generation.contents.handle.stat()).size)
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
    // A rename leaves the name free for a moment, which is no error.
    if (now - this.#missingSinceMs < lookMs) return
    await this.#report(`"${this.#options.filePath}" no longer exists. The stream continues when the file exists again`)
  }

  async #report(message: string): Promise<void> {
    if (message === this.#reported) return
    this.#reported = message
    await this.#emit({ event: 'error', data: { message } })
  }

  /** Opens the file. Returns null if that fails; then the reason has been sent. */
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
      return {
        ...shown,
        generation: createGeneration({ identity, contents, offset: shown.end, mark: shown.mark }),
        key
      }
    } catch (error) {
      if (!(error instanceof Refusal) || signal.aborted) throw error
      await this.#report(
        error.code === 'file_missing' ? `${error.message}. The stream starts when the file exists` : error.message
      )
      return null
    }
  }
}

interface Snapshot {
  snapshot: { lines: string[]; size: number; binary: boolean }
  /** Position up to which the file was shown. */
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
  contents: Contents,
  { from, tailLines }: { from: 'tail' | 'start'; tailLines: number }
): Promise<Snapshot> {
  const { handle, size } = contents
  const isGap = from === 'start' && !contents.isCompressed && size <= maxGapBytes
  const bytes = isGap ? await readStart(handle, tailLines) : await readTail(handle, size, tailLines)
  const binary = isBinary(bytes)
  const end = isGap ? bytes.length : size
  // Nothing was shown, but the file must be recognized later.
  const mark =
    bytes.length > 0
      ? bytes.subarray(-markBytes)
      : await readAt(handle, Math.max(0, end - markBytes), Math.min(end, markBytes))
  return { snapshot: { lines: binary ? [] : linesOf(bytes), size, binary }, end, mark }
}

const markBytes = 256

/** Returns the first whole lines of a file. The rest follows as `lines` events. */
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

/** Returns the last lines of a file, read backwards, including text after the last newline. */
async function readTail(handle: Contents['handle'], size: number, maxLines: number): Promise<Buffer> {
  if (maxLines === 0) return Buffer.alloc(0)
  const blocks: Buffer[] = []
  let at = size
  let missing = maxLines
  while (at > 0 && size - at < maxSnapshotBytes) {
    const from = Math.max(0, at - tailBlockBytes)
    const block = await readAt(handle, from, at - from)
    // The newline at the end of the file does not begin a line.
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
  // Too long: begin with the first whole line, or within a line that has no beginning within reach.
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
