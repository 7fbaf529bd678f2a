import type { Clock } from '../base/clock.js'
import type { LogSource, LogSourceMeta, LogWindow } from '../model/log-source.js'
import { contentsComing, contentsOf, readAt, type ComingContents, type Contents } from './contents.js'
import type { InflatedFiles } from './inflated.js'
import type { OpenLog } from './open.js'
import type { SearchEvent, SearchQuery, Searches } from './search.js'
import { createSharedLooks } from './shared-looks.js'
import { followLog, type TailEvent } from './tail.js'
import { seekTime, timesIn, type LogTime } from './time-search.js'
import type { FileWatcher } from './watch.js'
import { readWindow, type Direction } from './window.js'

export interface RangeQuery {
  direction: Direction
  /** Undefined: the end of the file; of `forward`, its start. */
  offset: number | undefined
  sizeBytes: number
  /** Begins with the first line at or after it, whatever the offset is; undefined: at the offset. */
  time?: LogTime | undefined
  signal: AbortSignal
}

/** Times between which lines were written, the second one excluded. */
export interface TimeRange {
  since?: LogTime | undefined
  until?: LogTime | undefined
}

/**
 * Looking into the files of log sources (§4.9). All of it refuses what `OpenLog` refuses; what asks for a time also what
 * `seekTime` does.
 */
export interface LogViewer {
  meta(source: LogSource, signal: AbortSignal): Promise<LogSourceMeta>
  range(source: LogSource, query: RangeQuery): Promise<LogWindow>
  /** What the file holds when it is opened, from its start. */
  read(source: LogSource, signal: AbortSignal): AsyncIterable<Uint8Array>
  /** Opens the file and closes it, for what it refuses. */
  check(source: LogSource): Promise<void>
  follow(
    source: LogSource,
    options: { tailLines: number; signal: AbortSignal },
    emit: (event: TailEvent) => Promise<void>
  ): Promise<void>
  search(
    source: LogSource,
    query: SearchQuery & TimeRange & { signal: AbortSignal },
    emit: (event: SearchEvent) => Promise<void>
  ): Promise<void>
  /** Stops watching, searching, and lets go of inflated files. */
  close(): Promise<void>
}

interface Needs {
  openLog: OpenLog
  inflated: InflatedFiles
  watcher: FileWatcher
  searches: Searches
  clock: Clock
}

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

/** The same search between the places of its times. */
async function withinTimes<T extends SearchQuery & TimeRange & { signal: AbortSignal }>(
  { handle, reach }: ComingContents, query: T
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

const blockBytes = 256 * 1024

/** What a writer adds meanwhile is left out: a download has an end. */
async function* readAll({ handle, size, release }: Contents): AsyncGenerator<Uint8Array> {
  try {
    for (let at = 0; at < size; ) {
      const block = await readAt(handle, at, Math.min(blockBytes, size - at))
      if (block.length === 0) return
      at += block.length
      yield block
    }
  } finally {
    await release()
  }
}
