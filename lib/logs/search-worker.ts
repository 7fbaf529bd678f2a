/* A thread that searches: search-threads.ts starts it, says what for, and which runs; it works on them one by one. */
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { createScanner } from './scan.js'
import { blockBytes, createBlockBuffer, createBlockSearch, type BlockSearch } from './search-block.js'
import { begunCell, stopCell, type Found, type Order, type Run } from './search-threads.js'

const searchNice = 10
const cells = workerData as Int32Array
const buffer = createBlockBuffer()
let blocks: BlockSearch | undefined
let maxHits = 0

// Where the cores are busy, whoever waits for an answer goes first. Elsewhere than on Linux it would be for the process.
if (process.platform === 'linux') setPriority(0, searchNice)

parentPort?.on('message', (order: Order) => {
  if ('run' in order) return searchRun(order.run)
  const { fd, pattern, context } = order.plan
  maxHits = order.plan.maxHits
  blocks = createBlockSearch({ fd, scanner: createScanner(pattern), context, buffer })
})

function searchRun({ index, from, to, size }: Run): void {
  let left = maxHits
  for (let at = from; at < to && left > 0 && Atomics.load(cells, stopCell) === 0; at += blockBytes) {
    // A sign of life: a block that does not end is an expression that does not.
    Atomics.add(cells, begunCell, 1)
    const hits = blocks?.search({ from: at, to: Math.min(to, at + blockBytes), size, maxHits: left }) ?? []
    left -= hits.length
    if (hits.length > 0) parentPort?.postMessage({ index, hits, isEnd: false } satisfies Found)
  }
  parentPort?.postMessage({ index, hits: [], isEnd: true } satisfies Found)
}
