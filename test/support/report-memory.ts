/* Loaded before a program (`node --expose-gc --import`): on SIGUSR2 it says on stdout, as `memory: <bytes>`, what is still in use after a collection. */
import { writeSync } from 'node:fs'

process.on('SIGUSR2', () => {
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  writeSync(1, `memory: ${heapUsed + external}\n`)
})
