/** Limits how many callers may proceed at a time. The others are queued in the order of their calls. */
export interface Gate {
  /**
   * Waits for a place. Returns a function that gives the place to the next caller. An abort rejects with the signal's
   * reason; a full queue rejects with the error of `full`. With `isFirst` the caller goes to the front of the queue.
   */
  enter(signal?: AbortSignal, options?: { isFirst?: boolean }): Promise<() => void>
  /** Number of callers in the queue. */
  readonly waiting: number
}

/** Limits of a gate. */
export interface GateOptions {
  places: number
  /** Maximum length of the queue. Default: no limit. */
  maxWaiting?: number
  /** Creates the error for a full queue. */
  full?(): Error
}

/** Creates a gate with all places free. */
export function createGate({
  places,
  maxWaiting = Infinity,
  full = () => new Error('The queue is full')
}: GateOptions): Gate {
  const waiting: Array<() => void> = []
  let free = places

  const leave = (): void => {
    const next = waiting.shift()
    if (next === undefined) free++
    else next()
  }

  return {
    get waiting() {
      return waiting.length
    },
    async enter(signal, { isFirst = false } = {}) {
      signal?.throwIfAborted()
      if (free > 0) {
        free--
        return leave
      }
      if (waiting.length >= maxWaiting) throw full()
      await new Promise<void>((resolve, reject) => {
        const enter = (): void => {
          signal?.removeEventListener('abort', giveUp)
          resolve()
        }
        const giveUp = (): void => {
          waiting.splice(waiting.indexOf(enter), 1)
          reject(signal?.reason as Error)
        }
        if (isFirst) waiting.unshift(enter)
        else waiting.push(enter)
        signal?.addEventListener('abort', giveUp, { once: true })
      })
      return leave
    }
  }
}
