/*
 * The place of a time in a log that is too large to be read: halving its bytes, as far as its lines are in the order of
 * time. Some twenty reads of 64 KiB find it in any file.
 */
import { Refusal } from '../base/refusal.js'
import { timeOfLine } from '../model/line-time.js'
import { readAt, type Contents } from './contents.js'
import { lineText, newline } from './text.js'

export interface TimeQuery {
  atMs: number
  /** The time of a line; null: it does not say. */
  timeOf(line: string): number | null
  signal: AbortSignal
}

/** A time, and the zone of lines that have none. */
export interface LogTime {
  atMs: number
  /** Minutes east of Greenwich; undefined: the server's own zone. */
  zoneMinutes: number | undefined
}

type Readable = Pick<Contents, 'handle' | 'size'>

const windowBytes = 64 * 1024
/** Windows that are read on from a place, until one has a line with a time. */
const maxUntimed = 8
/** Of a line, looked at for its time. */
const headBytes = 1024

/** What tells the time of a line, as it is asked for. */
export function timesIn(zoneMinutes: number | undefined): TimeQuery['timeOf'] {
  const nowMs = Date.now()
  return line => timeOfLine(line, nowMs, zoneMinutes)
}

/**
 * The offset of the first line at or after a time; the size of the log if there is none. Refuses: 400 `no_times` where
 * no line near either end of the log says a time.
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
  const last = await firstTimed(log, query, { from: low, to: size, atLeastMs: atMs, windows: maxUntimed + 2 })
  return last?.offset ?? size
}

async function checkTimes(log: Readable, query: TimeQuery): Promise<void> {
  const end = Math.max(0, log.size - maxUntimed * windowBytes)
  for (const from of [0, end]) if (await firstTimed(log, query, { from, to: log.size }) !== null) return
  throw new Refusal('invalid', 'no_times', 'No line of this log says when it was written, so it cannot be searched by time')
}

interface Stretch {
  from: number
  to: number
  /** Earlier lines are passed over. */
  atLeastMs?: number
  windows?: number
}

/** The first line with a time that begins in a stretch, as far as it is looked at. */
async function firstTimed(
  log: Readable,
  { timeOf, signal }: TimeQuery,
  { from, to, atLeastMs = -Infinity, windows = maxUntimed }: Stretch
): Promise<{ timeMs: number; offset: number } | null> {
  // One byte before, which tells whether a line begins here.
  let at = Math.max(0, from - 1)
  let isLineStart = from === 0
  for (let count = 0; count < windows && at < to; count++) {
    signal.throwIfAborted()
    const bytes = await readAt(log.handle, at, windowBytes)
    if (bytes.length === 0) return null
    const isLast = at + bytes.length >= log.size
    let start = isLineStart ? 0 : bytes.indexOf(newline) + 1
    if (start === 0 && !isLineStart) {
      // A line longer than the window.
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
    // Beyond the window: a line that is longer than it.
    isLineStart = start <= bytes.length
    at += Math.min(start, bytes.length)
  }
  return null
}
