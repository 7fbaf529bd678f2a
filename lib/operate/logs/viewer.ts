import type { Clock } from '../../base/clock.js'
import type { LogSource, LogSourceMeta, LogWindow } from '../../model/log-source.js'
import { readAt } from '../../base/files.js'
import { notFound, Refusal } from '../../base/errors.js'
import type { Reader } from '../../core/store/database.js'
import { findLogSource } from '../../core/store/tables/projects.js'
import { timeOfLine } from '../../base/shared/log-line.js'
import {
  type ComingContents,
  type Contents,
  contentsComing,
  contentsOf,
  type InflatedFiles,
  lineText,
  newline,
  cutAfter,
  cutBefore,
  isBinary,
  linesOf
} from './read/contents.js'
import type { OpenLog } from './read/open.js'
import type { Searches, SearchEvent, SearchQuery } from './search/search.js'
import { createSharedLooks, type FileWatcher } from './tail/watch.js'
import { followLog, type TailEvent, type TailOptions } from './tail/tail.js'
import type { FileHandle } from 'node:fs/promises'

/** The window that a user asks for. */
export interface RangeQuery {
  direction: Direction
  /** Undefined means the end of the file; for `forward`, its start. */
  offset: number | undefined
  sizeBytes: number
  /** If given, the window begins with the first line at or after this time and `offset` is ignored. */
  time?: LogTime | undefined
  signal: AbortSignal
}

/** Selects lines by time: from `since` up to, but not including, `until`. */
export interface TimeRange {
  since?: LogTime | undefined
  until?: LogTime | undefined
}

/**
 * Reads the files of log sources (§4.9). Every method refuses what `OpenLog` refuses. Methods with a time also refuse
 * what `seekTime` refuses.
 */
export type LogViewer = ReturnType<typeof createLogViewer>

interface Needs {
  openLog: OpenLog
  inflated: InflatedFiles
  watcher: FileWatcher
  searches: Searches
  clock: Clock
}

export function createLogViewer(needs: Needs) {
  const { openLog, inflated, watcher, searches } = needs
  const looks = createSharedLooks()

  return {
    async meta({ id, label, filePath, kind }: LogSource, signal: AbortSignal): Promise<LogSourceMeta> {
      const log = await openLog(filePath)
      const contents = await contentsOf(log, inflated, signal)
      await contents.release()
      return { id, label, filePath, resolvedPath: log.path, kind, size: contents.size }
    },

    async range(
      { filePath }: LogSource,
      { direction, offset, sizeBytes, time, signal }: RangeQuery
    ): Promise<LogWindow> {
      const contents = await contentsOf(await openLog(filePath), inflated, signal)
      try {
        if (time !== undefined) {
          const place = await seekTime(contents, { atMs: time.atMs, timeOf: timesIn(time.zoneMinutes), signal })
          return await readWindow(contents.handle, contents.size, { direction: 'forward', offset: place, sizeBytes })
        }
        const place = offset ?? (direction === 'forward' ? 0 : contents.size)
        return await readWindow(contents.handle, contents.size, { direction, offset: place, sizeBytes })
      } finally {
        await contents.release()
      }
    },

    /** Returns the contents that the file has when it is opened, from its start. */
    async *read({ filePath }: LogSource, signal: AbortSignal): AsyncIterable<Uint8Array> {
      yield* readAll(await contentsOf(await openLog(filePath), inflated, signal))
    },

    /** Opens and closes the file, to see whether that is refused. */
    async check({ filePath }: LogSource): Promise<void> {
      const { handle } = await openLog(filePath)
      await handle.close()
    },

    follow: (
      { filePath }: LogSource,
      options: Pick<TailOptions, 'tailLines' | 'after' | 'signal'>,
      emit: (event: TailEvent) => Promise<void>
    ): Promise<void> => followLog({ ...needs, looks }, { filePath, ...options }, emit),

    async search(
      { filePath }: LogSource,
      query: SearchQuery & TimeRange & { signal: AbortSignal; caller: string },
      emit: (event: SearchEvent) => Promise<void>
    ): Promise<void> {
      const contents = await contentsComing(await openLog(filePath), inflated)
      try {
        await searches.run(contents, await withinTimes(contents, query), emit)
      } finally {
        await contents.release()
      }
    },

    /** Stops watching and searching, and removes decompressed files. */
    async close(): Promise<void> {
      watcher.close()
      await searches.close()
      await inflated.close()
    }
  }
}

/** Returns the search restricted to its time range. */
async function withinTimes<T extends SearchQuery & TimeRange & { signal: AbortSignal }>(
  { handle, reach }: ComingContents,
  query: T
): Promise<T> {
  const { since, until, signal, fromOffset, toOffset } = query
  if (since === undefined && until === undefined) return query
  const { size } = await reach(Infinity)
  const placeOf = ({ atMs, zoneMinutes }: LogTime): Promise<number> =>
    seekTime({ handle, size }, { atMs, timeOf: timesIn(zoneMinutes), signal })
  const first = since === undefined ? 0 : await placeOf(since)
  const end = until === undefined ? size : await placeOf(until)
  return { ...query, fromOffset: Math.max(fromOffset, first), toOffset: Math.min(toOffset ?? end, end) }
}

export const downloadBlockBytes = 256 * 1024

/** Reads the contents. Bytes that are appended meanwhile are left out, so that a download ends. */
async function* readAll({ handle, size, release }: Contents): AsyncGenerator<Uint8Array> {
  try {
    for (let at = 0; at < size; ) {
      const block = await readAt(handle, at, Math.min(downloadBlockBytes, size - at))
      if (block.length === 0) return
      at += block.length
      yield block
    }
  } finally {
    await release()
  }
}

/** The lines to read: those after an offset, or none if the offset is null. */
export interface NewLinesQuery {
  projectId: string
  sourceId: string
  offset: number | null
  signal: AbortSignal
}

const newLinesBytes = 256 * 1024

/**
 * Returns lines of a project's log source after an offset, and the offset to continue at. A file that became shorter
 * was rotated, and is read from its start. Refuses: 404, and what the viewer refuses.
 */
export async function newLogLines(
  db: Reader,
  viewer: Pick<LogViewer, 'meta' | 'range'>,
  { projectId, sourceId, offset, signal }: NewLinesQuery
): Promise<{ lines: string[]; endOffset: number; hasMore: boolean }> {
  const source = findLogSource(db, sourceId)
  if (source === undefined || source.projectId !== projectId) throw notFound('Log source', sourceId)
  const { size } = await viewer.meta(source, signal)
  if (offset === null) return { lines: [], endOffset: size, hasMore: false }
  const from = offset > size ? 0 : offset
  if (from === size) return { lines: [], endOffset: size, hasMore: false }
  const query = { direction: 'forward', offset: from, sizeBytes: newLinesBytes, signal } as const
  const { lines, endOffset, truncatedTail } = await viewer.range(source, query)
  return { lines, endOffset, hasMore: truncatedTail && endOffset > from }
}

/*
 * Finds the position of a time in a log that is too large to read, by binary search over its bytes. This works if the
 * lines are in order of time. About twenty reads of 64 KiB find the position in any file.
 */

/** The time that is searched for. */
export interface TimeQuery {
  atMs: number
  /** Returns the time of a line, or null if the line names no time. */
  timeOf(line: string): number | null
  signal: AbortSignal
}

/** A time, and the time zone for lines that do not name one. */
export interface LogTime {
  atMs: number
  /** Offset from UTC in minutes, positive to the east. Undefined means the server's own time zone. */
  zoneMinutes: number | undefined
}

type Readable = Pick<Contents, 'handle' | 'size'>

const windowBytes = 64 * 1024
/** Number of windows that are read at each end, to see whether the lines of a log have times. */
const maxUntimed = 8
/** Number of stretches that these places divide a log into. */
const placesBetween = 64
/** Maximum number of windows without a time that are passed over: 1 GiB. */
const maxPassed = 16_384
/** Number of bytes of a line in which its time is searched. */
const headBytes = 1024

/** Returns the function that reads the time of a line, for a time zone. */
function timesIn(zoneMinutes: number | undefined): TimeQuery['timeOf'] {
  const nowMs = Date.now()
  return line => timeOfLine(line, nowMs, zoneMinutes)
}

/**
 * Returns the offset of the first line at or after a time, or the size of the log if there is none. Refuses: 400
 * `no_times` if no line near either end of the log, or near one of the places between them, has a time.
 */
export async function seekTime(log: Readable, query: TimeQuery): Promise<number> {
  const { size } = log
  const { atMs } = query
  if (size === 0) return 0
  await checkTimes(log, query)
  let low = 0
  let high = size
  while (high - low > windowBytes) {
    const middle = low + Math.floor((high - low) / 2)
    const found = await firstTimed(log, query, { from: middle, to: high })
    if (found === null || found.timeMs >= atMs) high = middle
    else low = found.offset
  }
  const last = await firstTimed(log, query, { from: low, to: size, atLeastMs: atMs })
  return last?.offset ?? size
}

/** Looks at both ends, then at one window at each place between them: all of a log of at most 4 MiB. */
async function checkTimes(log: Readable, query: TimeQuery): Promise<void> {
  const end = Math.max(0, log.size - maxUntimed * windowBytes)
  const windows = maxUntimed + 1
  const between = Array.from({ length: placesBetween - 1 }, (_, at) => Math.floor(((at + 1) * end) / placesBetween))
  for (const from of [0, end]) if ((await firstTimed(log, query, { from, to: log.size, windows })) !== null) return
  for (const from of between) if ((await firstTimed(log, query, { from, to: log.size, windows: 1 })) !== null) return
  throw new Refusal('invalid', 'no_times', 'Cannot search this log by time: its lines have no timestamps')
}

interface Stretch {
  from: number
  to: number
  /** Earlier lines are skipped. */
  atLeastMs?: number
  windows?: number
}

/** Returns the first line with a time that begins in a stretch, within the given number of windows. */
async function firstTimed(
  log: Readable,
  { timeOf, signal }: TimeQuery,
  { from, to, atLeastMs = -Infinity, windows = maxPassed }: Stretch
): Promise<{ timeMs: number; offset: number } | null> {
  // One byte earlier, to see whether a line begins here.
  let at = Math.max(0, from - 1)
  let isLineStart = from === 0
  for (let count = 0; count < windows && at < to; count++) {
    signal.throwIfAborted()
    const bytes = await readAt(log.handle, at, windowBytes)
    if (bytes.length === 0) return null
    const isLast = at + bytes.length >= log.size
    let start = isLineStart ? 0 : bytes.indexOf(newline) + 1
    if (start === 0 && !isLineStart) {
      // The line is longer than the window.
      at += bytes.length
      continue
    }
    while (start < bytes.length) {
      const end = bytes.indexOf(newline, start)
      if (at + start >= to || (end === -1 && !isLast && start > 0)) break
      const lineEnd = end === -1 ? bytes.length : end
      const timeMs = timeOf(lineText(bytes, start, Math.min(lineEnd, start + headBytes)))
      if (timeMs !== null && timeMs >= atLeastMs) return { timeMs, offset: at + start }
      start = lineEnd + 1
    }
    if (isLast) return null
    // The line continues beyond the window.
    isLineStart = start <= bytes.length
    at += Math.min(start, bytes.length)
  }
  return null
}

/*
 * A window of a log (§4.9 `range`): whole lines of at most `sizeBytes` in total. Reading it costs about twice that
 * size.
 *
 *   forward   begins with the line that contains the byte at `offset`
 *   backward  ends with the line that contains the byte before `offset`
 *   tail      ends with the file
 *
 * A reader that continues at the `endOffset` of a window (or, backwards, at its `startOffset`) misses no byte and gets
 * none twice. A line that is longer than the window is returned in pieces, each a window of its own, cut at the start
 * of a character. A window that is requested in the middle of such a line begins (or ends) there. If the size is
 * smaller than a character, that character is returned. A line next to other lines is never cut: the window ends
 * before it. The end of the file is the end of a line.
 *
 * Progress: an edge moves by less than `sizeBytes - 3`, and a piece is at least `sizeBytes - 3` long or the end of its
 * line. So the far edge is always beyond `offset`.
 */

/** Which lines around `offset` a window contains, see the head of this file. */
export type Direction = 'forward' | 'backward' | 'tail'

/** The window that is requested. */
interface WindowQuery {
  direction: Direction
  /** Position in bytes. Ignored for `tail`. A position beyond the end means the end. */
  offset: number
  sizeBytes: number
}

const carriageReturn = 13
/** A cut moves by at most this many bytes to keep a character whole. */
const characterSlack = 3

/** Reads a window of a file of `fileSize` bytes. If the file shrinks meanwhile, the window is shorter. */
export async function readWindow(handle: FileHandle, fileSize: number, query: WindowQuery): Promise<LogWindow> {
  const { direction, sizeBytes } = query
  const offset = direction === 'tail' ? fileSize : Math.min(query.offset, fileSize)
  const { start, bytes } =
    direction === 'forward'
      ? await readForward(handle, { offset, sizeBytes, fileSize })
      : await readBackward(handle, { offset, sizeBytes, fileSize })
  const binary = isBinary(bytes)
  const end = start + bytes.length
  return {
    startOffset: start,
    endOffset: end,
    fileSize,
    lines: binary ? [] : linesOf(bytes),
    truncatedHead: start > 0,
    truncatedTail: end < fileSize,
    binary
  }
}

interface Place {
  offset: number
  sizeBytes: number
  fileSize: number
}

interface Cut {
  start: number
  bytes: Buffer
}

async function readForward(handle: FileHandle, { offset, sizeBytes, fileSize }: Place): Promise<Cut> {
  if (offset === fileSize) return { start: fileSize, bytes: Buffer.alloc(0) }
  const from = Math.max(0, offset - sizeBytes - characterSlack)
  // A few more bytes: for the line end of a line that just fits, and for a character that does not fit.
  const bytes = await readAt(handle, from, Math.min(fileSize, offset + sizeBytes + characterSlack + 1) - from)
  const at = Math.min(offset - from, bytes.length)
  const lineStart = at === 0 ? 0 : bytes.lastIndexOf(newline, at - 1) + 1
  const isReached = (lineStart > 0 || from === 0) && at - lineStart < sizeBytes - characterSlack
  const start = isReached ? lineStart : cutBefore(bytes, at)
  const end = endOfForward(bytes, { start, limit: start + sizeBytes, atEnd: from + bytes.length >= fileSize })
  return { start: from + start, bytes: bytes.subarray(start, end) }
}

function endOfForward(
  bytes: Buffer,
  { start, limit, atEnd }: { start: number; limit: number; atEnd: boolean }
): number {
  if (bytes.length <= limit && atEnd) return bytes.length
  const lineEnd = bytes.lastIndexOf(newline, limit - 1)
  if (lineEnd >= start) return lineEnd + 1
  if (bytes[limit] === newline) return limit + 1
  if (bytes[limit] === carriageReturn && bytes[limit + 1] === newline) return limit + 2
  const cut = cutBefore(bytes, Math.min(limit, bytes.length))
  return cut > start ? cut : cutAfter(bytes, Math.min(limit, bytes.length))
}

async function readBackward(handle: FileHandle, { offset, sizeBytes, fileSize }: Place): Promise<Cut> {
  // A few more bytes, to see whether a line or a character begins exactly at the start of the window.
  const from = Math.max(0, offset - sizeBytes - characterSlack - 1)
  const to = Math.min(fileSize, offset + Math.max(sizeBytes, characterSlack + 1))
  const bytes = await readAt(handle, from, to - from)
  const at = Math.min(offset - from, bytes.length)
  const end = endOfBackward(bytes, { at, sizeBytes, atEnd: from + bytes.length >= fileSize })
  const limit = Math.max(0, end - sizeBytes)
  if (from === 0 && limit === 0) return { start: 0, bytes: bytes.subarray(0, end) }
  const isLineStart = limit > 0 && bytes[limit - 1] === newline
  const before = isLineStart ? limit - 1 : bytes.indexOf(newline, limit)
  const isWhole = before !== -1 && before < end - 1
  const cut = cutAfter(bytes, limit)
  const start = isWhole ? before + 1 : cut < end ? cut : cutBefore(bytes, end - 1)
  return { start: from + start, bytes: bytes.subarray(start, end) }
}

function endOfBackward(
  bytes: Buffer,
  { at, sizeBytes, atEnd }: { at: number; sizeBytes: number; atEnd: boolean }
): number {
  if (at === 0 || bytes[at - 1] === newline) return at
  const found = bytes.indexOf(newline, at)
  const lineEnd = found === -1 ? bytes.length : found + 1
  const isReached = (found !== -1 || atEnd) && lineEnd - at < sizeBytes - characterSlack
  if (isReached) return lineEnd
  const isWithin = cutBefore(bytes, at) < at
  return isWithin ? cutAfter(bytes, at) : at
}
