import type { Clock } from '../../base/clock.js'
import type { LogSource, LogSourceMeta, LogWindow } from '../../model/log-source.js'
import { readAt } from '../../base/files.js'
import { notFound, Refusal } from '../../base/errors.js'
import type { Reader } from '../../core/store/database.js'
import { findLogSource } from '../../core/store/tables/projects.js'
import { timeOfLine } from '../../base/shared/log-line.js'
import { type ComingContents, type Contents, contentsComing, contentsOf, type InflatedFiles } from './read/contents.js'
import type { OpenLog } from './read/open.js'
import type { Searches, SearchEvent, SearchQuery } from './search/search.js'
import { createSharedLooks, type FileWatcher } from './tail/watch.js'
import { followLog, type TailEvent, type TailOptions } from './tail/tail.js'
import { type Direction, readWindow } from './read/window.js'
import { lineText, newline } from './read/text.js'

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

/** Creates the viewer. */
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

/** Size of the blocks of a download. */
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
