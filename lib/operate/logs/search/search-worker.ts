/*
 * A search thread. search-threads.ts starts it and sends the plan and the runs; the thread searches the runs one by
 * one.
 */
import { setPriority } from 'node:os'
import { serveThread } from '../../../base/workers.js'
import { visibleText } from '../../../base/shared/log-line.js'
import { createScanner, visibleScanner } from './scan.js'
import { blockBytes, createBlockBuffer, BlockSearch, type FoundHit } from './search-block.js'
import { maxUnsentLines, signCell, stopCell, unsentCell, type Found, type Order, type Run } from './search-threads.js'

/**
 * A lower priority, so that requests go first on busy machines: they take a third of the time. measured:
 * bench/search-server
 */
const searchNice = 5
/** Number of lines that are sent together. */
const batchLines = 250
const waitMs = 500
const buffer = createBlockBuffer()
/** Shared cells of the current search. */
let cells: Int32Array
let blocks: BlockSearch | undefined
let maxHits = 0
let isNewestFirst = false

// On Linux each thread has its own priority. Elsewhere this would change the priority of the server.
if (process.platform === 'linux') setPriority(0, searchNice)

serveThread((order: Order, send: (found: Found) => void): number => {
  if (order.kind === 'lines') return firstMatch(order)
  if (order.kind === 'run') searchRun(order.run, send)
  else begin(order)
  return 0
})

function firstMatch({ expression: { source, flags }, lines }: Extract<Order, { kind: 'lines' }>): number {
  const expression = new RegExp(source, flags)
  return lines.findIndex(line => expression.test(visibleText(line)))
}

function begin(order: Extract<Order, { kind: 'plan' }>): void {
  cells = order.cells
  giveSign()
  // If the following code fails, the plan of the previous search must not be used.
  blocks = undefined
  const { fd, pattern, context, level } = order.plan
  maxHits = order.plan.maxHits
  isNewestFirst = order.plan.isNewestFirst
  const scanner = pattern.isRaw ? createScanner(pattern) : visibleScanner(createScanner(pattern))
  blocks = new BlockSearch({ fd, scanner, context, buffer, level, onLook: giveSign })
}

function giveSign(): void {
  Atomics.add(cells, signCell, 1)
}

function searchRun({ index, from, to, size }: Run, send: (found: Found) => void): void {
  const batch = createBatch(index, send)
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
    batch.flush()
  }
}

/** Collects hits that are sent together: those of a block, or some of them if there are many. */
function createBatch(index: number, send: (found: Found) => void): { add(hit: FoundHit): boolean; flush(): boolean } {
  let hits: FoundHit[] = []
  let lines = 0

  function flush(): boolean {
    if (hits.length === 0) return true
    if (!awaitTurn()) return false
    Atomics.add(cells, unsentCell, lines)
    send({ index, hits, lines, isEnd: false })
    hits = []
    lines = 0
    return true
  }

  return {
    add(hit) {
      hits.push(hit)
      lines += 1 + hit.before.length + hit.after.length
      return lines < batchLines || flush()
    },
    flush
  }
}

/** Waits until enough was sent. Returns false if the search was stopped. */
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
