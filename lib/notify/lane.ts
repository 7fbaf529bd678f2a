export interface Lane {
  /**
   * Runs `work` when its turn comes; false: too many of this key, or too many in all, wait already, and it never runs.
   * `work` does not reject.
   */
  add(key: string, work: () => Promise<void>): boolean
  /** Resolves when nothing runs and nothing waits. */
  idle(): Promise<void>
}

export interface LaneLimits {
  /** How many run at once, in all and of one key. */
  abreast: number
  perKey: number
  /** How many wait, in all and of one key. */
  waiting: number
  waitingPerKey: number
}

interface Queue {
  running: number
  waiting: Array<() => Promise<void>>
}

/**
 * A queue for work that nobody waits for. Each key has its own order and its own limits, and keys take turns: one whose
 * work is slow holds up itself only, unless so many are slow that they fill `abreast`.
 */
export function createLane({ abreast, perKey, waiting, waitingPerKey }: LaneLimits): Lane {
  const queues = new Map<string, Queue>()
  let running = 0
  let waitingNow = 0
  let onIdle: Array<() => void> = []

  function start(key: string, queue: Queue, work: () => Promise<void>): void {
    running++
    queue.running++
    void work().finally(() => end(key, queue))
  }

  function end(key: string, queue: Queue): void {
    running--
    queue.running--
    if (queue.running === 0 && queue.waiting.length === 0) queues.delete(key)
    startNext()
    if (running > 0) return
    for (const resolve of onIdle) resolve()
    onIdle = []
  }

  function startNext(): void {
    if (running >= abreast) return
    for (const [key, queue] of queues) {
      if (queue.running >= perKey) continue
      const work = queue.waiting.shift()
      if (work === undefined) continue
      waitingNow--
      // To the end: the next turn is another key's.
      queues.delete(key)
      queues.set(key, queue)
      return start(key, queue, work)
    }
  }

  return {
    add(key, work) {
      const queue = queues.get(key) ?? { running: 0, waiting: [] }
      if (running < abreast && queue.running < perKey) {
        queues.set(key, queue)
        start(key, queue, work)
        return true
      }
      if (waitingNow >= waiting || queue.waiting.length >= waitingPerKey) return false
      waitingNow++
      queue.waiting.push(work)
      queues.set(key, queue)
      return true
    },
    idle: () => (running === 0 ? Promise.resolve() : new Promise(resolve => void onIdle.push(resolve)))
  }
}
