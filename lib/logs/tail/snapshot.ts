/*
 * Which bytes of a file a snapshot shows. Only the range is found here: its lines are read block by block as the client
 * takes them, so a snapshot of 5,000 lines costs no more memory than one of 5.
 */
import type { FileHandle } from 'node:fs/promises'
import { readAt } from '../../base/files.js'
import { cutAfter, isBinary, newline, sampleBytes } from '../read/text.js'

/** Maximum size of a snapshot: 5,000 lines of an access log. */
const maxSnapshotBytes = 2 * 1024 * 1024
const blockBytes = 64 * 1024
/** Number of bytes by which a file is recognized later, see `createGeneration`. */
const markBytes = 256

/** The bytes of a file that a snapshot shows. */
export interface SnapshotRange {
  start: number
  end: number
  /** If the bytes are not text, none are shown, and `start` is `end`. */
  isBinary: boolean
  /** The last bytes before `start`. */
  mark: Buffer
}

/** A file, and the number of lines that its snapshot has at most. */
export interface SnapshotQuery {
  handle: FileHandle
  size: number
  maxLines: number
}

/** Returns the range of the first whole lines. At least one is shown. */
export async function rangeOfHead({ handle, size, maxLines }: SnapshotQuery): Promise<SnapshotRange> {
  let [end, count] = [0, 0]
  for (let at = 0; at < Math.min(size, maxSnapshotBytes); at += blockBytes) {
    const block = await readAt(handle, at, Math.min(blockBytes, size - at))
    for (let found = block.indexOf(newline); found !== -1; found = block.indexOf(newline, found + 1)) {
      end = at + found + 1
      if (++count >= maxLines) return await described(handle, { start: 0, end })
    }
  }
  return await described(handle, { start: 0, end })
}

/** Returns the range of the last lines, including text after the last newline. */
export async function rangeOfTail(query: SnapshotQuery): Promise<SnapshotRange> {
  return await described(query.handle, { start: await startOfTail(query), end: query.size })
}

async function startOfTail({ handle, size, maxLines }: SnapshotQuery): Promise<number> {
  if (maxLines === 0) return size
  let [at, missing] = [size, maxLines]
  let firstLine: number | null = null
  while (at > 0 && size - at < maxSnapshotBytes) {
    const from = Math.max(0, at - blockBytes)
    const block = await readAt(handle, from, at - from)
    // The newline at the end of the file does not begin a line.
    let found = at === size ? block.length - 1 : block.length
    while (found > 0 && (found = block.lastIndexOf(newline, found - 1)) !== -1) {
      firstLine = from + found + 1
      if (--missing === 0) return firstLine
    }
    at = from
  }
  if (at === 0) return 0
  // Too long: begin with the first whole line, or within a line that has no beginning within reach.
  return firstLine ?? at + cutAfter(await readAt(handle, at, Math.min(blockBytes, size - at)), 0)
}

async function described(handle: FileHandle, { start, end }: { start: number; end: number }): Promise<SnapshotRange> {
  const first = await readAt(handle, start, Math.min(sampleBytes, end - start))
  const restBytes = end - start - first.length
  const last = await readAt(handle, end - Math.min(sampleBytes, restBytes), Math.min(sampleBytes, restBytes))
  const binary = isBinary(Buffer.concat([first, last]))
  const shownFrom = binary ? end : start
  const mark = await readAt(handle, Math.max(0, shownFrom - markBytes), Math.min(shownFrom, markBytes))
  return { start: shownFrom, end, isBinary: binary, mark }
}
