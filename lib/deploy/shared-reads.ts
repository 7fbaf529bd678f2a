import { readBlock, type StoredBlock } from './stored-output.js'

/** Reads the files of outputs for those who follow: a block that many want at the same time is read once. */
export interface SharedReads {
  /** The whole lines from `offset` on, none beyond `end`; null: there are none. */
  read(path: string, offset: number, end: number): Promise<StoredBlock | null>
}

/** Leaves threads of the pool to commits and to everything else. */
const readsAbreast = 2
/** Blocks kept in memory: followers that begin together do not read in lockstep. */
const keptBlocks = 8

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
    // The end of a file moves: the next caller looks again.
    block.then(found => { if (found === null) forget() }, forget)
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
