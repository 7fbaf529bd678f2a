import type { LogWindow } from '../../lib/model/log-source.js'

/*
 * The first line at or after a time, in a file that is too large to be read: halving its bytes, as far as its lines are
 * in the order of time. Pure but for the windows that it asks for.
 */

export interface TimeSearch {
  sizeBytes: number
  atMs: number
  /** The window that begins with the line at `offset`. */
  read: (offset: number) => Promise<Pick<LogWindow, 'startOffset' | 'endOffset' | 'lines'>>
  /** When a line was written; null: it does not say. */
  timeOf: (line: string) => number | null
}

/** Below this the windows are read one after the other. */
const nearBytes = 64 * 1024
/** Windows that are read on from a place, until one has a line with a time. */
const maxUntimed = 8

/** The window's start, and which of its lines it is; null: none was written then or later. */
export async function findTime(search: TimeSearch): Promise<{ offset: number; line: number } | null> {
  const { sizeBytes, atMs, read, timeOf } = search
  let low = 0
  let high = sizeBytes
  while (high - low > nearBytes) {
    const middle = low + Math.floor((high - low) / 2)
    const found = await firstTimed(search, middle, high)
    // Nothing in this half says a time: what is sought can only be told from before.
    if (found === null || found.timeMs >= atMs) high = middle
    // A line longer than a window begins before it.
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
  { read, timeOf }: TimeSearch, from: number, to: number
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
