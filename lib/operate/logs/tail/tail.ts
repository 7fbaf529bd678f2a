/*
 * Follows a log file (§6.3) across every kind of rotation:
 *
 *   renamed            the old file is read to its end, and for a while longer, because its writer may not know yet.
 *                      If there were several rotations, the files in between follow (resume.ts)
 *   truncated          recognized by its size, or by the bytes before the current position (`read/generation`). If it
 *   was
 *                      copied before (`copytruncate`), the copy is read to its end. Otherwise a `gap` event
 *                      says how many bytes are known to be lost: those that the file had when it was last checked
 *   deleted            the old file stays open, so that its inode is not reused for a new one of the same name
 *   missing, denied    one `error` event; the stream continues when the file is available again
 *
 * A client that was away continues after its last event (resume.ts): in the current file, or through the rotated ones.
 *
 * After a rotation the new file is shown from its first line, so that nothing is lost or doubled. A slow follower
 * keeps only its position in the file and one block: a snapshot, too, is read as its reader takes it.
 */
import { type Clock, instantOf } from '../../../base/clock.js'
import { Refusal } from '../../../base/errors.js'
import { type Contents, contentsOf, type InflatedFiles, isBinary } from '../read/contents.js'
import { bytesBefore, Generation, findCopy, type LogPlace, type Share } from '../read/generation.js'
import { identityAt, type OpenedLog, type OpenLog } from '../read/open.js'
import {
  type Between,
  type BetweenQuery,
  filesBetween,
  findRotated,
  idOf,
  placesOf,
  rangeOfHead,
  rangeOfTail
} from './resume.js'
import type { FileWatcher, SharedLooks } from './watch.js'

/**
 * Events of a followed log. A stream that is given an `id` continues after its event (resume.ts). The id begins with
 * `<bytes>@<file>`: the position in the current file up to which lines were sent.
 */
export type TailEvent =
  | SnapshotEvent
  /** The stream continues after the event that `after` names. No line is missing. */
  | { event: 'resumed'; id: string; data: { size: number } }
  | { event: 'lines'; id?: string; data: { lines: string[] } }
  | { event: 'rotated'; data: { at: string } }
  /** At least this many bytes of the old file were lost here; 0 if it is unknown whether any were lost. */
  | { event: 'gap'; data: { bytes: number } }
  | { event: 'error'; data: { message: string } }

/** The first lines of a file. They are read as they are taken, and must all be taken before the next event. */
export interface SnapshotEvent {
  event: 'snapshot'
  data: { size: number; binary: boolean }
  lines: AsyncIterable<string[]>
  /** Returns the position after the lines that were taken. */
  id(): string
}

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
  /** The id of the last event that the client has. Any other text is ignored. */
  after?: string | undefined
  /** §8: the first line after a silence is sent at once. Further lines are collected and sent after this time. */
  batchMs?: number
  signal: AbortSignal
}

type Emit = (event: TailEvent) => Promise<void>

/** §8 */
const defaultBatchMs = 500
/**
 * A new file is shown from its start if it was made since the last check, or is not larger than this. Another one, to
 * which a link was changed for example, is shown from its end.
 */
const maxGapBytes = 16 * 1024 * 1024
/** How long the old file of a rotation is still read: until its writer has opened the new one. */
const leavingMs = 10_000
/** Interval of checks without a notice. Also the time that a file must be missing before this is reported. */
const lookMs = 1_500
/** If the last check was longer ago, several rotations are possible. */
const lateMs = 5_000
/** Maximum number of files that are remembered, so that none is told twice. */
const maxTold = 200

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
  /** Whether lines of the current file were sent. Before that, the file that is leaving is read. */
  #isShown = false
  /** The places after which the stream continues. */
  #after: LogPlace[]
  #currentKey = ''
  #isBinary = false
  /** Size of the current file at the last check. */
  #seenBytes = 0
  /** When the current file was last known to have the name, on the clock of file times. */
  #seenAtMs = 0
  #leaving: { generation: Generation; untilMs: number } | null = null
  /** Files between the one that is leaving and the current one. */
  readonly #between: OpenedLog[] = []
  readonly #told = new Set<string>()
  #missingSinceMs: number | null = null
  #reported = ''
  #linesSentAtMs = -Infinity

  constructor(needs: TailNeeds, options: TailOptions, emit: Emit) {
    this.#needs = needs
    this.#options = options
    this.#emit = emit
    this.#after = placesOf(options.after ?? '')
    this.#seenAtMs = this.#after[0]?.mtimeMs ?? 0
  }

  /** Checks everything that may have changed by the notice `notices`. All followers of the file share the check. */
  async step(notices: number): Promise<void> {
    const { looks } = this.#needs
    const { filePath } = this.#options
    if (this.#leaving !== null) await this.#readLeaving()
    if (this.#current === null) return await this.#begin()
    const share: Share = (key, read) => this.#shared(`${notices} ${key}`, read)
    if (!(await this.#readOn(this.#current, share))) return await this.#beginAnew()
    const lookedAtMs = Date.now()
    const found = await looks(`${notices} ${filePath}`, () => identityAt(filePath))
    if (found === null) return await this.#noteMissing()
    this.#missingSinceMs = null
    this.#reported = ''
    const isSame = found.identity === this.#current.identity
    if (isSame) [this.#seenBytes, this.#seenAtMs] = [found.size, lookedAtMs]
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
    for (const { handle } of this.#between) await handle.close()
  }

  async #begin(): Promise<void> {
    const [place, late] = this.#after
    if (place !== undefined) return await this.#resume(place, late)
    const next = await this.#open('tail')
    if (next === null) return
    this.#take(next)
    await this.#showSnapshot(next)
  }

  /** Continues at a place: in the current file, or in a rotated one that has become part of the past. */
  async #resume(place: LogPlace, late: LogPlace | undefined): Promise<void> {
    const next = await this.#open('start')
    if (next === null) return
    this.#after = []
    this.#current = next.generation
    const { identity, contents } = next.generation
    const mark = identity === place.identity ? await bytesBefore(contents, place) : null
    if (late !== undefined) await this.#resumeLate(late)
    if (mark === null) return await this.#resumeRotated(place, next)
    const generation = new Generation({ ...place, contents, mark })
    this.#take({ ...next, generation, isBinary: isBinary(mark) })
    this.#isShown = true
    await this.#emitResumed(next.size)
    if (!(await this.#readOn(generation))) await this.#beginAnew()
  }

  async #resumeRotated(place: LogPlace, next: Opened): Promise<void> {
    await this.#finishLeaving()
    const old = await this.#findPlace(place)
    this.#take(next)
    const sinceMs = place.mtimeMs
    if (old !== null) {
      this.#leaving = { generation: old, untilMs: 0 }
      await this.#emitResumed(old.contents.size)
      await this.#finishRenamed(old, { next: { ...next, birthMs: Infinity }, sinceMs })
      return await this.#showRotated(next)
    }
    const before = { identity: next.generation.identity, birthMs: Infinity }
    const { lostBytes } = await this.#findBetween({
      after: { identity: place.identity, mtimeMs: sinceMs },
      before,
      sinceMs
    })
    await this.#noteGap(lostBytes)
    await this.#tellBetween()
    await this.#showRotated(next)
  }

  /** Continues in a file that was still read after its rotation. */
  async #resumeLate(place: LogPlace): Promise<void> {
    const generation = await this.#findPlace(place)
    if (generation === null) return await this.#noteGap(0)
    this.#note(generation.identity)
    this.#leaving = { generation, untilMs: performance.now() + leavingMs }
    await this.#readOn(generation)
  }

  async #findPlace(place: LogPlace): Promise<Generation | null> {
    return await findRotated(this.#needs, { path: this.#options.filePath, place, signal: this.#signal })
  }

  async #emitResumed(size: number): Promise<void> {
    await this.#emit({ event: 'resumed', id: this.#id() as string, data: { size } })
  }

  /** Returns the id of the next event: the places up to which everything was sent. */
  #id(leaving = this.#leaving?.generation): string | undefined {
    const current = this.#isShown ? this.#current?.place() : undefined
    return current === undefined && leaving === undefined ? undefined : idOf(current, leaving?.place())
  }

  async #showSnapshot({ size, shownTo, isBinary, generation }: Opened): Promise<void> {
    const lines = this.#linesUpTo(generation, shownTo)
    this.#isShown = true
    await this.#emit({ event: 'snapshot', data: { size, binary: isBinary }, lines, id: () => this.#id() as string })
  }

  /** Yields the lines up to a position and the incomplete one there. Ends before it if the file is truncated. */
  async *#linesUpTo(generation: Generation, until: number): AsyncGenerator<string[]> {
    const share: Share = (key, read) => this.#shared(key, read)
    for (;;) {
      const read = await generation.read({ share, until })
      if (read === null) return
      yield read.lines
      if (read.isEnd) break
    }
    yield generation.rest()
  }

  /** Shares a read. The follower that reads for all may leave and close the file: then each reads for itself. */
  #shared<T>(key: string, read: () => Promise<T>): Promise<T> {
    return this.#needs.looks(key, read).catch(read)
  }

  /** Starts again in the same file after it was truncated. */
  async #beginAnew(): Promise<void> {
    const next = await this.#open('start')
    if (next === null) return
    const [old, seenBytes, sinceMs] = [this.#current, this.#seenBytes, this.#seenAtMs]
    this.#take(next)
    await this.#finishLeaving()
    if (old !== null) await this.#finishTruncated(old, { next, seenBytes, sinceMs })
    await this.#showRotated(next)
  }

  async #finishTruncated(
    old: Generation,
    { next, seenBytes, sinceMs }: { next: Opened; seenBytes: number; sinceMs: number }
  ): Promise<void> {
    this.#leaving = { generation: old, untilMs: 0 }
    const copy = await findCopy(this.#needs, { path: this.#options.filePath, generation: old, signal: this.#signal })
    if (copy === null) {
      await this.#finishLeaving()
      return await this.#noteGap(Math.max(0, seenBytes - old.offset))
    }
    await old.moveTo(copy)
    const before = { identity: next.generation.identity, birthMs: Infinity }
    const found = await this.#findBetween({ after: copy, before, sinceMs })
    await this.#readOn(old)
    await this.#finishLeaving()
    if (found.isGap) await this.#noteGap(found.lostBytes)
    await this.#tellBetween()
    await this.#finishLeaving()
  }

  /** Continues with another file that has the name now. */
  async #replace(): Promise<void> {
    const next = await this.#open('start')
    if (next === null) return
    const [old, sinceMs] = [this.#current, this.#seenAtMs]
    this.#take(next)
    await this.#finishLeaving()
    if (old !== null) await this.#finishRenamed(old, { next, sinceMs })
    await this.#showRotated(next)
  }

  async #finishRenamed(old: Generation, { next, sinceMs }: { next: Opened; sinceMs: number }): Promise<void> {
    this.#leaving = { generation: old, untilMs: performance.now() + leavingMs }
    const { mtimeMs, nlink } = await old.contents.handle.stat()
    let after = { identity: old.identity, mtimeMs }
    if (nlink === 0) {
      // It may have been compressed.
      const copy = await findCopy(this.#needs, { path: this.#options.filePath, generation: old, signal: this.#signal })
      await copy?.release()
      if (copy !== null) after = copy
    }
    const before = { identity: next.generation.identity, birthMs: next.birthMs }
    const { isGap, lostBytes } = await this.#findBetween({ after, before, sinceMs })
    const isLost = nlink === 0 && after.identity === old.identity
    const isLate = Date.now() - sinceMs > lateMs || this.#between.length > 0
    await this.#readOn(old)
    if (isGap || (isLost && isLate)) {
      await this.#finishLeaving()
      await this.#noteGap(lostBytes)
    }
    await this.#tellBetween()
  }

  /** Finds and opens the files between two others. */
  async #findBetween(given: Pick<BetweenQuery, 'after' | 'before' | 'sinceMs'>): Promise<Between> {
    const query = { ...given, path: this.#options.filePath, told: this.#told }
    const found = await filesBetween(this.#needs.openLog, query)
    this.#between.push(...found.files)
    this.#note(given.after.identity)
    return found
  }

  /** Sends the lines of the files between. The last one stays open, because its writer may not know yet. */
  async #tellBetween(): Promise<void> {
    for (let log = this.#between.shift(); log !== undefined; log = this.#between.shift()) {
      await this.#finishLeaving()
      const { identity } = log
      const contents = await contentsOf(log, this.#needs.inflated, this.#signal)
      const generation = new Generation({
        identity,
        contents,
        offset: 0,
        mark: Buffer.alloc(0),
        mtimeMs: log.mtimeMs
      })
      this.#leaving = { generation, untilMs: performance.now() + leavingMs }
      this.#note(identity)
      await this.#readOn(generation)
    }
  }

  /** Notes that a file was told. */
  #note(identity: string): void {
    this.#told.add(identity)
    const [first] = this.#told
    if (this.#told.size > maxTold) this.#told.delete(first as string)
  }

  async #noteGap(bytes: number): Promise<void> {
    if (!this.#isBinary) await this.#emit({ event: 'gap', data: { bytes } })
  }

  get #signal(): AbortSignal {
    return this.#options.signal
  }

  #take(next: Opened): void {
    this.#current = next.generation
    this.#isShown = false
    this.#currentKey = next.key
    this.#isBinary = next.isBinary
    this.#seenBytes = next.size
    this.#seenAtMs = next.openedAtMs
    this.#missingSinceMs = null
    this.#reported = ''
  }

  async #showRotated(next: Opened): Promise<void> {
    await this.#emit({ event: 'rotated', data: { at: instantOf(this.#needs.clock) } })
    if (next.skippedBytes > 0) await this.#noteGap(next.skippedBytes)
    await this.#showSnapshot(next)
    // The snapshot has few lines, and nobody may write more. A truncation is seen by the next check.
    await this.#readOn(next.generation)
  }

  /** Sends what was appended. Returns false if the file was truncated. */
  async #readOn(generation: Generation, share?: Share): Promise<boolean> {
    for (;;) {
      const read = await generation.read({ share })
      if (read === null) return false
      if (!read.isEnd && generation === this.#current)
        this.#seenBytes = Math.max(this.#seenBytes, (await generation.contents.handle.stat()).size)
      await this.#sendLines(read.lines, this.#id())
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
      const lines = leaving.generation.rest()
      await this.#sendLines(lines, this.#id(leaving.generation))
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

  /** Returns which bytes of a file are shown at first. */
  #rangeOf({ handle, size }: Contents, { isHead, key }: { isHead: boolean; key: string }) {
    const { tailLines: maxLines } = this.#options
    return this.#shared(`${key} ${isHead} ${maxLines}`, () =>
      (isHead ? rangeOfHead : rangeOfTail)({ handle, size, maxLines })
    )
  }

  /** Opens the file. Returns null if that fails; then the reason has been sent. */
  async #open(from: 'tail' | 'start'): Promise<Opened | null> {
    const { filePath, signal } = this.#options
    const openedAtMs = Date.now()
    try {
      const log = await this.#needs.openLog(filePath)
      const { identity, birthMs, mtimeMs } = log
      const key = keyOf(log)
      const contents = await contentsOf(log, this.#needs.inflated, signal)
      const knownIdentity = this.#current?.identity ?? this.#after[0]?.identity
      const isNew = identity === knownIdentity || birthMs >= this.#seenAtMs
      const isHead = from === 'start' && !contents.isCompressed && (isNew || contents.size <= maxGapBytes)
      const range = await this.#rangeOf(contents, { isHead, key }).catch(async error => {
        await contents.release()
        throw error
      })
      const { start: offset, end: shownTo, mark, isBinary } = range
      const generation = new Generation({ identity, contents, offset, mark, mtimeMs })
      const skippedBytes = from === 'start' && !isHead && !isBinary ? offset : 0
      return { generation, size: contents.size, shownTo, isBinary, key, birthMs, openedAtMs, skippedBytes }
    } catch (error) {
      if (!(error instanceof Refusal) || signal.aborted) throw error
      await this.#report(
        error.code === 'file_missing' ? `${error.message}. The stream starts when the file exists` : error.message
      )
      return null
    }
  }
}

interface Opened {
  generation: Generation
  size: number
  /** Position up to which the snapshot shows the file. */
  shownTo: number
  isBinary: boolean
  key: string
  birthMs: number
  openedAtMs: number
  /** Number of bytes of the file that are not shown, although they may be new. */
  skippedBytes: number
}

function keyOf({ identity, size, mtimeMs }: OpenedLog): string {
  return `${identity} ${size} ${mtimeMs}`
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
