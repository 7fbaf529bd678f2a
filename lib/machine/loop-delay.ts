import type { IntervalHistogram } from 'node:perf_hooks'
import { bunVersion } from '../base/runtime.js'

/** Delays of the event loop since the previous reading, in seconds. `sum` and `count` cover the whole measurement. */
export interface LoopDelay {
  quantiles: Array<{ quantile: number; value: number }>
  max: number
  sum: number
  count: number
}

/** Measures delays of the event loop. */
export interface LoopDelayMeter {
  /** Returns the delays. The first call starts measuring and returns null, as does a runtime that cannot measure. */
  read(): LoopDelay | null
  stop(): void
}

/** Interval of the measuring timer. It costs 0.2 % of a core, so it runs only while somebody reads. */
const resolutionMs = 20
const forgetMs = 5 * 60_000
const quantiles = [0.5, 0.9, 0.99]
const nanoseconds = 1e9

/** Creates a meter that stops measuring after `idleMs` without a reading. */
export function createLoopDelayMeter({ idleMs = forgetMs } = {}): LoopDelayMeter {
  if (bunVersion !== undefined) return { read: () => null, stop() {} }
  let histogram: IntervalHistogram | undefined
  let isOn = false
  let sum = 0
  let count = 0
  let idle: NodeJS.Timeout | undefined

  /** Starts measuring. The module takes half a megabyte, so it is loaded when it is needed. */
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

  /** Returns a delay in seconds. The recorded value is the time between two wakes, which includes the resolution. */
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
      // Measuring continues: a reset would lose the current interval.
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
