/** How often something was begun, and how often it goes on now. */
export interface Activity {
  readonly total: number
  readonly now: number
  /** Counts `work` from now to its end, and gives its result. */
  during<T>(work: () => Promise<T>): Promise<T>
}

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
