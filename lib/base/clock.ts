/** The time, handed in so that tests can choose it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Milliseconds since some moment, for how long something takes or may take. Absent: `now` is as good. */
  elapsed?(): number
  /** What the machine's own clock says, to be compared with the times of files. Absent: `now` is the same. */
  machine?(): number
}

/** The clock of commands, which end before anybody sets it. */
export const systemClock: Clock = { now: Date.now }

/** How long something took is the difference of two of these: setting the machine's clock does not change it. */
export function elapsedOf(clock: Clock): number {
  return clock.elapsed?.() ?? clock.now()
}

/** For comparing with the times of files, which the system gives. */
export function machineTimeOf(clock: Clock): number {
  return clock.machine?.() ?? clock.now()
}

/** The clock of a server. */
export interface SteadyClock extends Clock {
  /** It is not before this instant, as far as that can be meant: what was recorded by then comes first. */
  follow(instantMs: number): void
}

/** Of a machine whose clock is set back further, the old time was the wrong one. */
const maxAheadMs = 24 * 60 * 60_000

/**
 * Follows the machine's clock, and goes on from what it has said where that is set back, until it has caught up: what comes
 * later has the later time, since lists are in the order of times. One that is set back by more than a day is believed.
 */
export function createSteadyClock({ machine = Date.now, elapsed = () => performance.now() } = {}): SteadyClock {
  let saidMs = -Infinity
  let saidAtMs = 0
  const clock = {
    machine,
    elapsed,
    now(): number {
      const [machineMs, atMs] = [machine(), elapsed()]
      const nextMs = Math.floor(saidMs + (atMs - saidAtMs))
      const isBehind = machineMs < nextMs && nextMs - machineMs <= maxAheadMs
      // Begun anew only where the machine's clock leads, so that rounding does not add up.
      if (!isBehind) [saidMs, saidAtMs] = [machineMs, atMs]
      return isBehind ? nextMs : machineMs
    },
    follow(instantMs: number): void {
      if (instantMs > clock.now()) [saidMs, saidAtMs] = [instantMs, elapsed()]
    }
  }
  return clock
}
