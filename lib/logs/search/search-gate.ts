import { createGate, type Gate } from '../../base/async.js'
import { Refusal } from '../../base/errors.js'

/** Limits how many searches run at a time, in all and of one caller. */
export interface SearchGate {
  /** As of a gate. Refuses another one if too many already wait: 429 `too_many_searches`. */
  enter(caller: string, signal: AbortSignal): Promise<() => void>
  /** Whether a search waits because others have all places. */
  isWanted(): boolean
}

/** The places of searches. */
export interface SearchPlaces {
  places: number
  perCaller: number
  /** Maximum number of searches that wait, in all and of one caller. */
  maxWaiting: number
}

/** Creates a gate for searches. What waits for another search of its caller does not wait in the queue of all. */
export function createSearchGate({ places, perCaller, maxWaiting }: SearchPlaces): SearchGate {
  const all = createGate({ places, maxWaiting, full })
  const callers = new Map<string, { gate: Gate; count: number }>()
  return {
    isWanted: () => all.waiting > 0,
    async enter(caller, signal) {
      const own = callers.get(caller) ?? { gate: createGate({ places: perCaller, maxWaiting, full }), count: 0 }
      callers.set(caller, own)
      own.count++
      const forget = (): void => {
        if (--own.count === 0) callers.delete(caller)
      }
      let leaveOwn = (): void => {}
      try {
        leaveOwn = await own.gate.enter(signal)
        const leave = await all.enter(signal)
        return () => [leave, leaveOwn, forget].forEach(each => each())
      } catch (error) {
        leaveOwn()
        forget()
        throw error
      }
    }
  }
}

function full(): Refusal {
  const sentence = 'Cannot start the search: too many searches are queued. Try again in a moment'
  return new Refusal('too_many', 'too_many_searches', sentence, { retryAfterSeconds: 5 })
}
