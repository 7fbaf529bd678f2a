/** A queue for background work, with limits per key. */
export interface Lane {
  /**
   * Queues `work`. Returns false, and never runs it, if too many are waiting in total or with this key. `work` must not
   * reject.
   */
  add(key: string, work: () => Promise<void>): boolean
  /** Resolves when nothing is running or waiting. */
  idle(): Promise<void>
}

/** Limits of a lane. */
export interface LaneLimits {
  /** Maximum number that run at once, in total and per key. */
  abreast: number
  perKey: number
  /** Maximum number that wait, in total and per key. */
  waiting: number
  waitingPerKey: number
}

interface Queue {
  running: number
  waiting: Array<() => Promise<void>>
}

/**
 * Creates a lane. Each key has its own order and limits, and the keys take turns. A key with slow work delays only
 * itself, unless so many keys are slow that they use all of `abreast`.
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
      // Move the key to the end, so that the next turn is another key's.
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
