/** The intervals of one period, which elapse only on command. */
export interface HeldIntervals {
  /** Number of running intervals. */
  count(): number
  /** Lets the period elapse once for each running interval. */
  pass(): void
}

/**
 * Holds every interval of exactly this period that anything in this process starts from now on, until the test ends: a
 * period of many seconds need not be waited for, and one of another length is not held.
 */
export function holdIntervals(t: { teardown(work: () => unknown): void }, periodMs: number): HeldIntervals {
  const { setInterval: start, clearInterval: end } = globalThis
  const held = new Map<NodeJS.Timeout, () => void>()
  globalThis.setInterval = ((run: (...values: unknown[]) => void, ms?: number, ...values: unknown[]) => {
    const isHeld = ms === periodMs
    const timer = start(isHeld ? () => {} : run, isHeld ? 2 ** 31 - 1 : ms, ...values)
    if (isHeld) held.set(timer, () => run(...values))
    return timer
  }) as typeof setInterval
  globalThis.clearInterval = (timer => {
    held.delete(timer as NodeJS.Timeout)
    end(timer)
  }) as typeof clearInterval
  t.teardown(() => Object.assign(globalThis, { setInterval: start, clearInterval: end }))
  return {
    count: () => held.size,
    pass: () => {
      for (const run of [...held.values()]) run()
    }
  }
}
