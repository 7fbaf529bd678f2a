/** A queue for background work, with a lane for each key. */
export interface Lane {
  /**
   * Queues `work`. Returns false, and never runs it, if too many are waiting with this key, or too many keys have work.
   * `work` must not reject.
   */
  add(key: string, work: () => Promise<void>): boolean
  /** Resolves when nothing is running or waiting. */
  idle(): Promise<void>
}

/** Limits of a lane. */
export interface LaneLimits {
  /** Maximum number of keys that have work. Each of them has a place of its own. */
  keys: number
  /** Maximum number that run at once beside the first of each key, in total. */
  shared: number
  /** Maximum number that run at once with one key. */
  perKey: number
  /** Maximum number that wait with one key. */
  waitingPerKey: number
}

interface Queue {
  running: number
  waiting: Array<() => Promise<void>>
}

/**
 * Creates a lane. Each key has its own order and limits, and a place that no other key can take: a key with slow work
 * delays only itself, however many such keys there are. What runs beyond that takes turns. So at most `keys` + `shared`
 * run, and `keys` × `waitingPerKey` wait.
 */
export function createLane({ keys, shared, perKey, waitingPerKey }: LaneLimits): Lane {
  const queues = new Map<string, Queue>()
  let running = 0
  let sharedNow = 0
  let onIdle: Array<() => void> = []

  function mayStart(queue: Queue): boolean {
    return queue.running === 0 || (queue.running < perKey && sharedNow < shared)
  }

  function start(key: string, queue: Queue, work: () => Promise<void>): void {
    running++
    if (queue.running++ > 0) sharedNow++
    void work().finally(() => end(key, queue))
  }

  function end(key: string, queue: Queue): void {
    running--
    if (--queue.running > 0) sharedNow--
    if (queue.running === 0 && queue.waiting.length === 0) queues.delete(key)
    startNext()
    if (running > 0) return
    for (const resolve of onIdle) resolve()
    onIdle = []
  }

  function startNext(): void {
    for (const [key, queue] of queues) {
      if (!mayStart(queue)) continue
      const work = queue.waiting.shift()
      if (work === undefined) continue
      // Move the key to the end, so that the next turn is another key's.
      queues.delete(key)
      queues.set(key, queue)
      return start(key, queue, work)
    }
  }

  return {
    add(key, work) {
      const queue = queues.get(key) ?? { running: 0, waiting: [] }
      if (!queues.has(key) && queues.size >= keys) return false
      queues.set(key, queue)
      if (mayStart(queue)) start(key, queue, work)
      else if (queue.waiting.length >= waitingPerKey) return false
      else queue.waiting.push(work)
      return true
    },
    idle: () => (running === 0 ? Promise.resolve() : new Promise(resolve => void onIdle.push(resolve)))
  }
}
