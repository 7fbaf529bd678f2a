export interface Lane {
  /** Runs `work` when its turn comes; false: too many wait already, it never will. `work` does not reject. */
  add(work: () => Promise<void>): boolean
  /** Resolves when nothing runs and nothing waits. */
  idle(): Promise<void>
}

/** A queue for what nobody waits for: at most `abreast` run at once, at most `waiting` wait, first come, first served. */
export function createLane({ abreast, waiting }: { abreast: number; waiting: number }): Lane {
  const queue: Array<() => Promise<void>> = []
  let running = 0
  let onIdle: Array<() => void> = []

  function start(work: () => Promise<void>): void {
    running++
    void work().finally(next)
  }

  function next(): void {
    running--
    const work = queue.shift()
    if (work !== undefined) return start(work)
    if (running > 0) return
    for (const resolve of onIdle) resolve()
    onIdle = []
  }

  return {
    add(work) {
      if (running < abreast) start(work)
      else if (queue.length >= waiting) return false
      else queue.push(work)
      return true
    },
    idle: () => (running === 0 ? Promise.resolve() : new Promise(resolve => void onIdle.push(resolve)))
  }
}
