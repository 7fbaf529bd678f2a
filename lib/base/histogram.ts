/** The values observed so far. Counts are cumulative, as in Prometheus: each includes those of the lower bounds. */
export interface HistogramFigures {
  buckets: ReadonlyArray<{ atMost: number; count: number }>
  sum: number
  count: number
}

/** Counts observed values. */
export type Histogram = ReturnType<typeof createHistogram>

/** Creates a histogram with upper bounds, which must be sorted. Its memory does not grow with the number of values. */
export function createHistogram(bounds: readonly number[]) {
  const counts = bounds.map(() => 0)
  let sum = 0
  let count = 0
  return {
    observe(value: number): void {
      sum += value
      count++
      const at = bounds.findIndex(bound => value <= bound)
      if (at !== -1) counts[at] = (counts[at] as number) + 1
    },
    figures(): HistogramFigures {
      let below = 0
      return { buckets: bounds.map((atMost, at) => ({ atMost, count: (below += counts[at] as number) })), sum, count }
    }
  }
}
