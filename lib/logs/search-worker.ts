/* A thread of a search; search.ts starts it, tells it which runs to search, and ends it. */
import { parentPort, workerData } from 'node:worker_threads'
import { createScanner } from './scan.js'
import { blockBytes, createBlockSearch } from './search-block.js'
import type { Found, Run, ThreadData } from './search.js'

const { fd, size, pattern, context, maxHits, cells, cell } = workerData as ThreadData
const blocks = createBlockSearch({ fd, size, scanner: createScanner(pattern), context })

parentPort?.on('message', ({ index, from, to }: Run) => {
  let left = maxHits
  for (let at = from; at < to && left > 0; at += blockBytes) {
    // A sign of life: a block that does not end is an expression that does not.
    Atomics.add(cells, cell, 1)
    const hits = blocks.search(at, Math.min(to, at + blockBytes), left)
    left -= hits.length
    if (hits.length > 0) parentPort?.postMessage({ index, hits, isEnd: false } satisfies Found)
  }
  parentPort?.postMessage({ index, hits: [], isEnd: true } satisfies Found)
})
