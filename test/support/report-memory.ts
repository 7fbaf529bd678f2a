/*
 * Loaded before a program (`node --expose-gc --import`). On SIGUSR2 it prints the memory in use after a garbage
 * collection: `memory: <bytes>`.
 */
import { writeSync } from 'node:fs'

process.on('SIGUSR2', () => {
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  writeSync(1, `memory: ${heapUsed + external}\n`)
})
