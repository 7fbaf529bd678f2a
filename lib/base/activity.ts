/** Counts how often some work was started, and how often it is running now. */
export interface Activity {
  readonly total: number
  readonly now: number
  /** Counts `work` until it settles, and returns its result. */
  during<T>(work: () => Promise<T>): Promise<T>
}

/** Creates the counts, which start at 0. */
export function createActivity(): Activity {
  let total = 0
  let now = 0
  return {
    get total() {
      return total
    },
    get now() {
      return now
    },
    async during(work) {
      total++
      now++
      try {
        return await work()
      } finally {
        now--
      }
    }
  }
}
