/** Lets some in at a time; the others wait in the order in which they came. */
export interface Gate {
  /** Returns what lets the next one in. An abort rejects with its reason; a full queue with what `full` returns. */
  enter(signal: AbortSignal): Promise<() => void>
}

export interface GateOptions {
  places: number
  /** Default: no limit. */
  maxWaiting?: number
  /** The error for one that cannot even wait. */
  full?(): Error
}

export function createGate({ places, maxWaiting = Infinity, full = () => new Error('Too many wait') }: GateOptions): Gate {
  const waiting: Array<() => void> = []
  let free = places

  const leave = (): void => {
    const next = waiting.shift()
    if (next === undefined) free++
    else next()
  }

  return {
    async enter(signal) {
      signal.throwIfAborted()
      if (free > 0) {
        free--
        return leave
      }
      if (waiting.length >= maxWaiting) throw full()
      await new Promise<void>((resolve, reject) => {
        const enter = (): void => {
          signal.removeEventListener('abort', giveUp)
          resolve()
        }
        const giveUp = (): void => {
          waiting.splice(waiting.indexOf(enter), 1)
          reject(signal.reason as Error)
        }
        waiting.push(enter)
        signal.addEventListener('abort', giveUp, { once: true })
      })
      return leave
    }
  }
}
