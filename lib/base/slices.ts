import { performance } from 'node:perf_hooks'
import { setImmediate as turn } from 'node:timers/promises'

/** Shares the event loop between work that comes in many small pieces and everything else. */
export interface Slices {
  /** To be called, and awaited, before each piece: undefined means now; a promise resolves when it is this piece's turn. */
  turn(): Promise<void> | undefined
}

/** A request waits this long for pieces of work that began before it; less costs more turns of the loop. */
const defaultSliceMs = 4

/**
 * Pieces run for `sliceMs` in a row. Those after that wait, in order, until the event loop has handled what has arrived
 * meanwhile (test/bench/followers).
 */
export function createSlices({ sliceMs = defaultSliceMs } = {}): Slices {
  let waiting: Array<() => void> = []
  let isOpen = false
  let isDraining = false
  let untilMs = 0

  function open(): void {
    isOpen = true
    untilMs = performance.now() + sliceMs
    setImmediate(() => {
      isOpen = false
      if (waiting.length > 0) void drain()
    })
  }

  async function drain(): Promise<void> {
    isDraining = true
    while (waiting.length > 0) {
      await turn()
      untilMs = performance.now() + sliceMs
      let released = 0
      while (released < waiting.length && performance.now() < untilMs) {
        waiting[released++]?.()
        // The piece runs before its time is looked at.
        await null
      }
      waiting = waiting.slice(released)
    }
    isDraining = false
  }

  return {
    turn() {
      if (!isDraining && waiting.length === 0) {
        if (!isOpen) open()
        if (performance.now() < untilMs) return undefined
      }
      return new Promise(resolve => waiting.push(resolve))
    }
  }
}
