import { createGate, type Gate } from '../base/gate.js'
import { Refusal } from '../base/refusal.js'

/** Lets some searches in at a time. Refuses (429 `too_many_searches`) one for which there is no place to wait. */
export function createSearchGate(places: number, maxWaiting: number): Gate {
  return createGate({
    places,
    maxWaiting,
    full() {
      const sentence = 'The search cannot begin: too many others wait already; try again in a moment'
      return new Refusal('too_many', 'too_many_searches', sentence, { retryAfterSeconds: 5 })
    }
  })
}
