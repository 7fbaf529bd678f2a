/*
 * Loaded before a server (`node --expose-gc --import`): on SIGUSR2 it says on stdout, as `inside: <JSON>`, what keeps
 * the process alive, which timers are set, and how much memory is in use after two collections. Nothing of it is in the
 * product.
 */
import { createHook } from 'node:async_hooks'
import { writeSync } from 'node:fs'

/** Measurements that a server reports about itself. */
export interface Inside {
  /**
   * Kinds of `process.getActiveResourcesInfo()`, with how many of each; and `timers`, those included that keep nothing
   * alive.
   */
  resources: Record<string, number>
  heapBytes: number
  /** Memory of buffers and of the database, which is one. */
  arrayBufferBytes: number
}

const timers = new Set<number>()
createHook({
  init: (id, type) => void (type === 'Timeout' && timers.add(id)),
  destroy: id => void timers.delete(id)
}).enable()

process.on('SIGUSR2', () => {
  const collect = (globalThis as { gc?: () => void }).gc
  collect?.()
  collect?.()
  const resources: Record<string, number> = { timers: timers.size }
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  const inside: Inside = { resources, heapBytes: heapUsed, arrayBufferBytes: arrayBuffers }
  writeSync(1, `inside: ${JSON.stringify(inside)}\n`)
})
