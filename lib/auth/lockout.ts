import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { Refusal } from '../base/refusal.js'
import type { ClientAddress } from '../http/route.js'

/*
 * Guessing the admin token, made slow (§5.7). Failures of login and of token change are counted together, in memory:
 *
 *   per address        8 in 10 minutes lock it for 5 minutes
 *   per witnessed one  40: a proxy that appends to X-Forwarded-For lets a client invent its first entry, so what no
 *                      trusted proxy wrote counts too, with room for the people who share an office's address
 *   from everybody     200 make every further attempt a second slower, because addresses are cheap
 *
 * An attempt counts as failed from its beginning and is taken back when it succeeds: a thousand at once are not a
 * thousand free guesses.
 */
const windowMs = 10 * 60_000 // §8
const lockMs = 5 * 60_000 // §8
const maxFailures = 8 // §8
const maxWitnessedFailures = 40
const slowAfterFailures = 200
const slowByMs = 1000
/** Addresses remembered; past it the one that failed longest ago is forgotten. */
const maxAddresses = 20_000

/** What an attempt came to: `locked` says that this failure is the one that locked the client. */
export type Attempt = 'right' | 'wrong' | 'locked'

export interface Lockout {
  /** Runs `verify` unless the client is locked. Refuses: 429 `locked_out` with the seconds that remain. */
  attempt(client: ClientAddress, verify: () => boolean | Promise<boolean>): Promise<Attempt>
}

interface Counter {
  failuresAtMs: number[]
  lockedUntilMs: number
}

interface Counted {
  counter: Counter
  limit: number
}

export function createLockout({ clock, slowMs = slowByMs }: { clock: Clock; slowMs?: number }): Lockout {
  const counters = new Map<string, Counter>()
  let everybody: number[] = []

  function counterOf(key: string): Counter {
    const counter = counters.get(key) ?? { failuresAtMs: [], lockedUntilMs: -Infinity }
    counters.delete(key)
    counters.set(key, counter)
    const oldest = counters.keys().next()
    if (counters.size > maxAddresses && !oldest.done) counters.delete(oldest.value)
    return counter
  }

  function countersOf(client: ClientAddress): [Counted, Counted] {
    return [
      { counter: counterOf(`a ${client.address}`), limit: maxFailures },
      { counter: counterOf(`w ${client.witnessed}`), limit: maxWitnessedFailures }
    ]
  }

  return {
    async attempt(client, verify) {
      const nowMs = elapsedOf(clock)
      const counted = countersOf(client)
      for (const { counter, limit } of counted) refuseLocked(counter, limit, nowMs)

      everybody = recent(everybody, nowMs)
      const isSlow = everybody.length >= slowAfterFailures
      const lists = [...counted.map(({ counter }) => counter.failuresAtMs), everybody]
      for (const failuresAtMs of lists) failuresAtMs.push(nowMs)

      if (isSlow) await sleep(slowMs)
      if (await verify()) {
        for (const failuresAtMs of lists) takeBack(failuresAtMs, nowMs)
        counted[0].counter.failuresAtMs.length = 0
        return 'right'
      }
      const locked = counted.filter(({ counter, limit }) => lockAt(counter, limit, elapsedOf(clock)))
      return locked.length > 0 ? 'locked' : 'wrong'
    }
  }
}

function refuseLocked(counter: Counter, limit: number, nowMs: number): void {
  if (counter.lockedUntilMs > nowMs) throw lockedOut(counter.lockedUntilMs - nowMs)
  counter.failuresAtMs = recent(counter.failuresAtMs, nowMs)
  // As many as the limit without a lock: they are still being verified.
  if (counter.failuresAtMs.length >= limit) throw lockedOut(slowByMs)
}

function lockAt(counter: Counter, limit: number, nowMs: number): boolean {
  if (counter.failuresAtMs.length < limit) return false
  counter.lockedUntilMs = nowMs + lockMs
  counter.failuresAtMs = []
  return true
}

function takeBack(failuresAtMs: number[], atMs: number): void {
  const index = failuresAtMs.lastIndexOf(atMs)
  if (index !== -1) failuresAtMs.splice(index, 1)
}

function recent(failuresAtMs: number[], nowMs: number): number[] {
  return failuresAtMs.filter(atMs => nowMs - atMs < windowMs).slice(-slowAfterFailures)
}

function lockedOut(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.ceil(remainingMs / 1000)
  const sentence = `Too many failed attempts: this address is locked, try again in ${retryAfterSeconds} seconds`
  return new Refusal('too_many', 'locked_out', sentence, { retryAfterSeconds })
}
