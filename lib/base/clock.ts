import { setTimeout as sleep } from 'node:timers/promises'

/** The time. It is passed in so that tests can set it. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number
  /** Milliseconds since some moment, to measure durations and timeouts. If absent, `now` is used. */
  elapsed?(): number
  /** Time of the machine's own clock, to be compared with the times of files. If absent, `now` is used. */
  machine?(): number
  /** The latest time that `now` has returned. If absent, it is not known. */
  latest?(): number
  /** Whether the owner of the machine says that it is right, although later times were recorded. */
  isTrusted?: boolean
}

/** Returns the time of a clock as ISO text. */
export function instantOf(clock: Pick<Clock, 'now'>): string {
  return new Date(clock.now()).toISOString()
}

/** The clock of commands, which are too short for a change of the machine's clock to matter. */
export const systemClock: Clock = { now: Date.now }

/**
 * Returns the time of a clock for measuring: the difference of two values is a duration. A change of the machine's
 * clock does not affect it.
 */
export function elapsedOf(clock: Clock): number {
  return clock.elapsed?.() ?? clock.now()
}

/** Returns the machine's time, for comparison with the times of files, which the system sets. */
export function machineTimeOf(clock: Clock): number {
  return clock.machine?.() ?? clock.now()
}

/** The clock of a server, which never goes back. */
export interface SteadyClock extends Clock {
  /** Never returns a time earlier than `instantMs` from now on: records up to then come first. */
  follow(instantMs: number): void
}

/** If the machine's clock is set back by more than this, its old time was wrong. */
const maxAheadMs = 24 * 60 * 60_000

/**
 * Creates a clock that follows the machine's clock. If that clock is set back, this one continues from its last time
 * until the machine has caught up. So later events have later times, which lists rely on for their order. If the clock
 * is set back by more than a day, the new time is used.
 */
export function createSteadyClock({
  machine = Date.now,
  elapsed = () => performance.now(),
  isTrusted = false
} = {}): SteadyClock {
  let lastMs = -Infinity
  let lastAtMs = 0
  let latestMs = -Infinity
  const clock = {
    machine,
    elapsed,
    isTrusted,
    latest: (): number => latestMs,
    now(): number {
      const [machineMs, atMs] = [machine(), elapsed()]
      const nextMs = Math.floor(lastMs + (atMs - lastAtMs))
      const isBehind = machineMs < nextMs && nextMs - machineMs <= maxAheadMs
      // Reset only if the machine's clock is ahead, so that rounding errors do not add up.
      if (!isBehind) [lastMs, lastAtMs] = [machineMs, atMs]
      latestMs = Math.max(latestMs, isBehind ? nextMs : machineMs)
      return isBehind ? nextMs : machineMs
    },
    follow(instantMs: number): void {
      if (instantMs > clock.now()) [lastMs, lastAtMs] = [instantMs, elapsed()]
    }
  }
  return clock
}

/**
 * Resolves after `ms`. An abort rejects at once, with the reason of the signal: Node's own timer rejects with an
 * AbortError, which callers that ask for that reason do not recognize.
 */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal === undefined) return sleep(ms)
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
}
