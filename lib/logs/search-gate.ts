import { Refusal } from '../base/refusal.js'

/** Lets some searches in at a time; the others wait in the order in which they came. */
export interface SearchGate {
  /** Gives what lets the next one in. Refuses: 429 `too_many_searches`. An abort rejects with its reason. */
  enter(signal: AbortSignal): Promise<() => void>
}

export function createSearchGate(places: number, maxWaiting: number): SearchGate {
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
      if (waiting.length >= maxWaiting) {
        const sentence = 'The search cannot begin: too many others wait already; try again in a moment'
        throw new Refusal('too_many', 'too_many_searches', sentence, { retryAfterSeconds: 5 })
      }
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
