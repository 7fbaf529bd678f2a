import { createGate, type Gate } from '../../base/gate.js'
import { Refusal } from '../../base/refusal.js'

/**
 * Creates a gate that lets `places` searches run at a time. Refuses another one if `maxWaiting` already wait: 429
 * `too_many_searches`.
 */
export function createSearchGate(places: number, maxWaiting: number): Gate {
  return createGate({
    places,
    maxWaiting,
    full() {
      const sentence = 'Cannot start the search: too many searches are queued. Try again in a moment'
      return new Refusal('too_many', 'too_many_searches', sentence, { retryAfterSeconds: 5 })
    }
  })
}
