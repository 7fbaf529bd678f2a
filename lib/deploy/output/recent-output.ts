import type { StoredBlock } from './stored-output.js'

/** The end of an output that is being written. Followers at the end share these blocks and read no file. */
export interface RecentOutput {
  /** Size of the file in bytes. */
  readonly end: number
  /** Adds whole lines that have been appended to the file. */
  add(bytes: Buffer): void
  /** Returns the lines from `offset` on, or null if they are no longer kept or `offset` is the end. */
  at(offset: number): StoredBlock | null
}

/** Maximum size of a block, in bytes. */
const blockBytes = 64 * 1024
/** Bytes kept in memory. A follower that is further behind reads the file. */
const keptBytes = 256 * 1024
const newline = 10

/** Creates the recent output of a file with `end` bytes. */
export function createRecentOutput(end: number): RecentOutput {
  const blocks: StoredBlock[] = []
  let bytesKept = 0

  function keep(bytes: Buffer): void {
    blocks.push({ bytes, offset: end })
    end += bytes.length
    bytesKept += bytes.length
    while (bytesKept > keptBytes && blocks.length > 1) bytesKept -= blocks.shift()?.bytes.length ?? 0
  }

  return {
    get end() {
      return end
    },
    add(bytes) {
      for (let start = 0; start < bytes.length; ) {
        const next = endOfBlock(bytes, start)
        keep(bytes.subarray(start, next))
        start = next
      }
    },
    at(offset) {
      const block = blocks.find(one => offset >= one.offset && offset < one.offset + one.bytes.length)
      if (block === undefined) return null
      return block.offset === offset ? block : { bytes: block.bytes.subarray(offset - block.offset), offset }
    }
  }
}

/** Returns the end of a block: as many whole lines as fit, or one line if it is longer. */
function endOfBlock(bytes: Buffer, start: number): number {
  if (bytes.length - start <= blockBytes) return bytes.length
  const fitting = bytes.lastIndexOf(newline, start + blockBytes - 1)
  return (fitting >= start ? fitting : bytes.indexOf(newline, start)) + 1
}
