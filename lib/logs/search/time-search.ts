/*
 * Finds the position of a time in a log that is too large to read, by binary search over its bytes. This works if the
 * lines are in order of time. About twenty reads of 64 KiB find the position in any file.
 */
import { Refusal } from '../../base/errors.js'
import { timeOfLine } from '../../shared/line-time.js'
import { readAt } from '../../base/files.js'
import type { Contents } from '../read/contents.js'
import { lineText, newline } from '../read/text.js'

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
export function timesIn(zoneMinutes: number | undefined): TimeQuery['timeOf'] {
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
