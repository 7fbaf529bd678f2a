import { readBlock, type StoredBlock } from './stored-output.js'

/** Reads output files for followers. A block that many followers want at the same time is read once. */
export interface SharedReads {
  /** Returns the whole lines from `offset` on, none beyond `end`, or null if there are none. */
  read(path: string, offset: number, end: number): Promise<StoredBlock | null>
}

/** Maximum number of parallel reads. It leaves threads of the pool for commits and other work. */
const readsAbreast = 2
/** Number of blocks kept in memory: followers that start together do not read in lockstep. */
const keptBlocks = 8

/** Creates the shared reads of one server. */
export function createSharedReads(): SharedReads {
  const reads = new Map<string, Promise<StoredBlock | null>>()
  const waiting: Array<() => void> = []
  let running = 0

  async function readInTurn(path: string, offset: number, end: number): Promise<StoredBlock | null> {
    if (running === readsAbreast) await new Promise<void>(resolve => waiting.push(resolve))
    else running++
    try {
      return await readBlock(path, offset, end)
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }

  function keep(key: string, block: Promise<StoredBlock | null>): void {
    reads.set(key, block)
    const forget = (): void => void reads.delete(key)
    // A missing block is not cached: the file may have grown at the next call.
    block.then(found => {
      if (found === null) forget()
    }, forget)
    const [oldest] = reads.keys()
    if (reads.size > keptBlocks && oldest !== undefined) reads.delete(oldest)
  }

  return {
    read(path, offset, end) {
      const key = `${offset} ${path}`
      const known = reads.get(key)
      if (known !== undefined) return known
      const block = readInTurn(path, offset, end)
      keep(key, block)
      return block
    }
  }
}
