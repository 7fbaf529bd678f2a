import type { LogWindow } from '../../lib/model/log-source.js'

/*
 * Finds the first line at or after a time in a large file by binary search over its bytes, which requires lines in
 * chronological order. Pure except for the windows that it requests.
 */

/** A search by time. */
export interface TimeSearch {
  sizeBytes: number
  atMs: number
  /** Reads the window that begins with the line at `offset`. */
  read: (offset: number) => Promise<Pick<LogWindow, 'startOffset' | 'endOffset' | 'lines'>>
  /** Returns the time of a line, or null if it has no time. */
  timeOf: (line: string) => number | null
}

/** Smaller ranges are read window by window. */
const nearBytes = 64 * 1024
/** Maximum number of windows without a time that are read from one place on. */
const maxUntimed = 8

/** Returns the offset of the window and the index of the line in it, or null if no line is at or after the time. */
export async function findTime(search: TimeSearch): Promise<{ offset: number; line: number } | null> {
  const { sizeBytes, atMs, read, timeOf } = search
  let low = 0
  let high = sizeBytes
  while (high - low > nearBytes) {
    const middle = low + Math.floor((high - low) / 2)
    const found = await firstTimed(search, middle, high)
    // This half contains no time, so only the first half can be examined.
    if (found === null || found.timeMs >= atMs) high = middle
    // A line that is longer than a window begins before it.
    else low = Math.max(middle, found.offset)
  }
  for (let offset = low; offset < sizeBytes; ) {
    const window = await read(offset)
    const line = window.lines.findIndex(text => (timeOf(text) ?? -Infinity) >= atMs)
    if (line !== -1) return { offset: window.startOffset, line }
    if (window.endOffset <= offset) return null
    offset = window.endOffset
  }
  return null
}

async function firstTimed(
  { read, timeOf }: TimeSearch,
  from: number,
  to: number
): Promise<{ timeMs: number; offset: number } | null> {
  let offset = from
  for (let count = 0; count < maxUntimed && offset < to; count++) {
    const window = await read(offset)
    for (const text of window.lines) {
      const timeMs = timeOf(text)
      if (timeMs !== null) return { timeMs, offset: window.startOffset }
    }
    if (window.endOffset <= offset) return null
    offset = window.endOffset
  }
  return null
}
