import type { IntervalHistogram } from 'node:perf_hooks'
import { bunVersion } from '../base/runtime.js'

/** Delays of the event loop since the reading before, in seconds; `sum` and `count` since the measuring began. */
export interface LoopDelay {
  quantiles: Array<{ quantile: number; value: number }>
  max: number
  sum: number
  count: number
}

export interface LoopDelayMeter {
  /** Begins to measure with the first call. Null: nothing is measured yet, or this runtime cannot. */
  read(): LoopDelay | null
  stop(): void
}

/** A timer that wakes the process so often: 20 ms cost 0.2 % of a core, so it runs only while somebody reads. */
const resolutionMs = 20
const forgetMs = 5 * 60_000
const quantiles = [0.5, 0.9, 0.99]
const nanoseconds = 1e9

/** Measures only while it is read: an idle server that nobody watches has no such timer. */
export function createLoopDelayMeter({ idleMs = forgetMs } = {}): LoopDelayMeter {
  if (bunVersion !== undefined) return { read: () => null, stop() {} }
  let histogram: IntervalHistogram | undefined
  let isOn = false
  let sum = 0
  let count = 0
  let idle: NodeJS.Timeout | undefined

  /** Node's own module, and half a megabyte: loaded when it is needed. */
  async function begin(): Promise<void> {
    const { monitorEventLoopDelay } = await import('node:perf_hooks')
    histogram ??= monitorEventLoopDelay({ resolution: resolutionMs })
    if (!isOn) return
    histogram.reset()
    histogram.enable()
  }

  function stop(): void {
    clearTimeout(idle)
    idle = undefined
    histogram?.disable()
    isOn = false
  }

  /** What is recorded is the time between two wakes: the delay is what exceeds the resolution. */
  const delayOf = (ns: number): number => Math.max(0, ns / nanoseconds - resolutionMs / 1000)

  return {
    read() {
      idle ??= setTimeout(stop, idleMs).unref()
      idle.refresh()
      if (!isOn) {
        isOn = true
        void begin()
        return null
      }
      if (histogram === undefined) return null
      const measured = histogram
      const recorded = Number(measured.count)
      // It goes on measuring: a reset would begin anew.
      if (recorded === 0) return null
      const read = {
        quantiles: quantiles.map(quantile => ({ quantile, value: delayOf(measured.percentile(quantile * 100)) })),
        max: delayOf(measured.max),
        sum: (sum += delayOf(measured.mean) * recorded),
        count: (count += recorded)
      }
      histogram.reset()
      return read
    },
    stop
  }
}
