/*
 * Loaded before a program (`node --expose-gc --import`). On SIGUSR2 it prints the memory in use after two garbage
 * collections: `memory: <bytes>`.
 */
import { writeSync } from 'node:fs'

process.on('SIGUSR2', () => {
  // The first one leaves what finalizers hold (as in inside.ts).
  globalThis.gc?.()
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  writeSync(1, `memory: ${heapUsed + external}\n`)
})
