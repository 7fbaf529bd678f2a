import { performance } from 'node:perf_hooks'
import { setImmediate as turn } from 'node:timers/promises'

/** Shares the event loop between other work and many small pieces of work, such as writes to followers. */
export interface Slices {
  /**
   * Must be called before each piece. Undefined means that the piece may run at once, before any `await`. A promise
   * resolves when the piece may run.
   */
  turn(): Promise<void> | undefined
}

/** Maximum delay of a request by such pieces. A shorter slice costs more turns of the event loop. */
const defaultSliceMs = 4

/**
 * Creates slices: pieces run for `sliceMs` in a row. Later ones wait, in order, until the event loop has handled the
 * events that have arrived (measured: test/bench/followers).
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
        // Lets the piece run before its time is checked.
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
