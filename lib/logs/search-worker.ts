/* A thread that searches: search-threads.ts starts it, says what for, and which runs; it works on them one by one. */
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { createScanner } from './scan.js'
import { blockBytes, createBlockBuffer, createBlockSearch, type BlockSearch, type FoundHit } from './search-block.js'
import { begunCell, maxUnsentLines, stopCell, unsentCell, type Found, type Order, type Run } from './search-threads.js'

const searchNice = 10
/** Sent together. */
const batchLines = 250
const waitMs = 500
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
  for (let at = from; at < to && left > 0 && !isStopped(); at += blockBytes) {
    // A sign of life: a block that does not end is an expression that does not.
    Atomics.add(cells, begunCell, 1)
    const hits = blocks?.search({ from: at, to: Math.min(to, at + blockBytes), size, maxHits: left }) ?? []
    left -= hits.length
    sendHits(index, hits)
  }
  parentPort?.postMessage({ index, hits: [], lines: 0, isEnd: true } satisfies Found)
}

function sendHits(index: number, hits: FoundHit[]): void {
  for (let from = 0, to = 0; from < hits.length && awaitTurn(); from = to) {
    let lines = 0
    for (; to < hits.length && lines < batchLines; to++) lines += linesOf(hits[to] as FoundHit)
    Atomics.add(cells, unsentCell, lines)
    parentPort?.postMessage({ index, hits: hits.slice(from, to), lines, isEnd: false } satisfies Found)
  }
}

function linesOf({ before, after }: FoundHit): number {
  return 1 + before.length + after.length
}

/** Waits until enough was sent; false: the search has ended. */
function awaitTurn(): boolean {
  while (!isStopped()) {
    const unsent = Atomics.load(cells, unsentCell)
    if (unsent < maxUnsentLines) return true
    Atomics.wait(cells, unsentCell, unsent, waitMs)
    Atomics.add(cells, begunCell, 1)
  }
  return false
}

function isStopped(): boolean {
  return Atomics.load(cells, stopCell) === 1
}
