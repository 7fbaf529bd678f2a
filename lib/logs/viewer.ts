import type { Clock } from '../base/clock.js'
import type { LogSource, LogSourceMeta, LogWindow } from '../model/log-source.js'
import { readAt } from '../base/files.js'
import { contentsComing, contentsOf, type ComingContents, type Contents } from './read/contents.js'
import type { InflatedFiles } from './read/inflated.js'
import type { OpenLog } from './read/open.js'
import type { SearchEvent, SearchQuery, Searches } from './search/search.js'
import { createSharedLooks } from './tail/shared-looks.js'
import { followLog, type TailEvent, type TailOptions } from './tail/tail.js'
import { seekTime, timesIn, type LogTime } from './search/time-search.js'
import type { FileWatcher } from './tail/watch.js'
import { readWindow, type Direction } from './read/window.js'

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
export interface LogViewer {
  meta(source: LogSource, signal: AbortSignal): Promise<LogSourceMeta>
  range(source: LogSource, query: RangeQuery): Promise<LogWindow>
  /** Returns the contents that the file has when it is opened, from its start. */
  read(source: LogSource, signal: AbortSignal): AsyncIterable<Uint8Array>
  /** Opens and closes the file, to see whether that is refused. */
  check(source: LogSource): Promise<void>
  follow(
    source: LogSource,
    options: Pick<TailOptions, 'tailLines' | 'after' | 'signal'>,
    emit: (event: TailEvent) => Promise<void>
  ): Promise<void>
  search(
    source: LogSource,
    query: SearchQuery & TimeRange & { signal: AbortSignal; caller: string },
    emit: (event: SearchEvent) => Promise<void>
  ): Promise<void>
  /** Stops watching and searching, and removes decompressed files. */
  close(): Promise<void>
}

interface Needs {
  openLog: OpenLog
  inflated: InflatedFiles
  watcher: FileWatcher
  searches: Searches
  clock: Clock
}

/** Creates the viewer. */
export function createLogViewer(needs: Needs): LogViewer {
  const { openLog, inflated, watcher, searches } = needs
  const looks = createSharedLooks()

  return {
    async meta({ id, label, filePath, kind }, signal) {
      const log = await openLog(filePath)
      const contents = await contentsOf(log, inflated, signal)
      await contents.release()
      return { id, label, filePath, resolvedPath: log.path, kind, size: contents.size }
    },

    async range({ filePath }, { direction, offset, sizeBytes, time, signal }) {
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

    async *read({ filePath }, signal) {
      yield* readAll(await contentsOf(await openLog(filePath), inflated, signal))
    },

    async check({ filePath }) {
      const { handle } = await openLog(filePath)
      await handle.close()
    },

    follow: ({ filePath }, options, emit) => followLog({ ...needs, looks }, { filePath, ...options }, emit),

    async search({ filePath }, query, emit) {
      const contents = await contentsComing(await openLog(filePath), inflated)
      try {
        await searches.run(contents, await withinTimes(contents, query), emit)
      } finally {
        await contents.release()
      }
    },

    async close() {
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
