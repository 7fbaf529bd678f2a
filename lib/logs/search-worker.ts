/* A thread that searches: search-threads.ts starts it, says what for, and which runs; it works on them one by one. */
import { setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { createScanner } from './scan.js'
import { blockBytes, createBlockBuffer, createBlockSearch, type BlockSearch, type FoundHit } from './search-block.js'
import { maxUnsentLines, signCell, stopCell, unsentCell, type Found, type Order, type Run } from './search-threads.js'

/** Where the cores are busy, whoever waits for an answer goes first: a third of the time. measured: bench/search-server */
const searchNice = 5
/** Sent together. */
const batchLines = 250
const waitMs = 500
const cells = workerData as Int32Array
giveSign()
const buffer = createBlockBuffer()
let blocks: BlockSearch | undefined
let maxHits = 0
let isNewestFirst = false

// Linux gives a thread a priority of its own; elsewhere it would be that of the server.
if (process.platform === 'linux') setPriority(0, searchNice)

parentPort?.on('message', (order: Order) => {
  if ('run' in order) return searchRun(order.run)
  const { fd, pattern, context, level } = order.plan
  maxHits = order.plan.maxHits
  isNewestFirst = order.plan.isNewestFirst
  blocks = createBlockSearch({ fd, scanner: createScanner(pattern), context, buffer, level, onLook: giveSign })
})

function giveSign(): void {
  Atomics.add(cells, signCell, 1)
}

function searchRun({ index, from, to, size }: Run): void {
  const batch = createBatch(index)
  let left = maxHits
  const take = (hit: FoundHit): boolean => {
    left--
    giveSign()
    return batch.add(hit) && left > 0
  }
  const count = Math.ceil((to - from) / blockBytes)
  for (let block = 0; block < count && left > 0 && !isStopped(); block++) {
    giveSign()
    if (isNewestFirst) {
      const end = to - block * blockBytes
      blocks?.searchBack({ from: Math.max(from, end - blockBytes), to: end, size }, left, take)
    } else {
      const at = from + block * blockBytes
      blocks?.search({ from: at, to: Math.min(to, at + blockBytes), size }, take)
    }
    batch.send()
  }
  parentPort?.postMessage({ index, hits: [], lines: 0, isEnd: true } satisfies Found)
}

/** Hits that go together: those of a block, or some of them where there are many. */
function createBatch(index: number): { add(hit: FoundHit): boolean; send(): boolean } {
  let hits: FoundHit[] = []
  let lines = 0

  function send(): boolean {
    if (hits.length === 0) return true
    if (!awaitTurn()) return false
    Atomics.add(cells, unsentCell, lines)
    parentPort?.postMessage({ index, hits, lines, isEnd: false } satisfies Found)
    hits = []
    lines = 0
    return true
  }

  return {
    add(hit) {
      hits.push(hit)
      lines += 1 + hit.before.length + hit.after.length
      return lines < batchLines || send()
    },
    send
  }
}

/** Waits until enough was sent; false: the search has ended. */
function awaitTurn(): boolean {
  while (!isStopped()) {
    const unsent = Atomics.load(cells, unsentCell)
    if (unsent < maxUnsentLines) return true
    Atomics.wait(cells, unsentCell, unsent, waitMs)
    giveSign()
  }
  return false
}

function isStopped(): boolean {
  return Atomics.load(cells, stopCell) === 1
}
