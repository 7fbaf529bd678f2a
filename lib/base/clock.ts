/** The time, handed in so that tests can choose it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
}

export const systemClock: Clock = { now: Date.now }
