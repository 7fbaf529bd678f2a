import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { countOf } from '../base/count.js'
import { Refusal } from '../base/refusal.js'
import { isLoopback, networkOf } from '../http/client-address.js'
import type { ClientAddress, RequestFacts } from '../http/route.js'

/*
 * Makes guessing a token slow (§5.7). Every check of a secret runs through one limiter: login, token change, bearers,
 * tickets and the terminal's subprotocol.
 *
 *   per network     8 failures in 10 minutes lock it for 5 minutes: an IPv4 address, or the /64 of an IPv6 one, as
 *                   witnessed. A success takes nothing back.
 *   of everybody    after 200 failures in 10 minutes, further ones are answered one after the other, a second apart.
 *                   A network that has failed before waits before its next secret is looked at. A network without a
 *                   failure is checked at once: only its failure is answered late. While that queue is full, addresses
 *                   are checked that have shown a right secret before; others are refused unseen, because a process
 *                   that speaks for a trusted proxy (by default any on this machine) can invent them.
 *
 * A failure counts for the way it came (`wayOf`) as well as for its network: what a web page makes a browser send must
 * not lock out the command line on the same machine.
 */
const windowMs = 10 * 60_000 // §8
const lockMs = 5 * 60_000 // §8
const maxFailures = 8 // §8
const brakeAfterFailures = 200
const slotMs = 1000
/** Answers that wait; a guesser has so many guesses at once, then one in each slot. */
const maxDelayed = 1000
/** The longest that a check waits. */
const maxCheckDelayMs = 30 * slotMs
/** Networks remembered; past it the one that failed longest ago is forgotten. The brake lets fewer fail in a window. */
const maxCounters = 20_000
/** Addresses remembered for a right secret. */
const maxKnown = 20_000

/** What of a request decides whose failure it is. The local operator's socket is exempt. */
export type Origin = Pick<RequestFacts, 'headers' | 'query' | 'client'>

/** `wrong`: one failure. `locked`: the one that locked the network. `refused`: not looked at. */
export type Failure = 'wrong' | 'locked' | 'refused'

export interface Limiter {
  /**
   * Runs `check` unless the request's network is locked, and counts null as a failure. Answers at once where nothing has
   * to wait. Refuses: 429 `locked_out`, 429 `too_many_failures` if too many already wait; both with the seconds left.
   */
  attempt<T>(origin: Origin, check: () => T | null): T | null | Promise<T | null>
}

interface Counter {
  failuresAtMs: number[]
  lockedUntilMs: number
}

interface LimiterNeeds {
  clock: Clock
  /** Told of every failure. */
  onFailure(client: ClientAddress, failure: Failure): void
  /** How an answer is delayed. */
  wait?: (ms: number) => Promise<unknown>
}

export function createLimiter({ clock, onFailure, wait = waitQuietly }: LimiterNeeds): Limiter {
  const counters = new Map<string, Counter>()
  /** When the last failures of everybody were: a ring. */
  const latestAtMs = new Array<number>(brakeAfterFailures).fill(-Infinity)
  let failures = 0
  let queueEndsAtMs = -Infinity
  /** Networks with an attempt in the queue: each has one place, so that none fills it alone. */
  const waiting = new Set<string>()
  const known = new Set<string>()
  const placeOf = createPlaces()

  const isBraking = (nowMs: number): boolean => nowMs - (latestAtMs[failures % brakeAfterFailures] as number) < windowMs

  const queuedMs = (nowMs: number): number => Math.max(0, queueEndsAtMs - nowMs)

  /** The end of the queue. */
  function takeTurn(nowMs: number): Promise<unknown> {
    queueEndsAtMs = nowMs + queuedMs(nowMs) + slotMs
    return wait(queueEndsAtMs - nowMs)
  }

  function remember(address: string): void {
    if (known.has(address)) return
    known.add(address)
    if (known.size > maxKnown) known.delete(known.keys().next().value as string)
  }

  function refuse(client: ClientAddress, refusal: Refusal): never {
    onFailure(client, 'refused')
    throw refusal
  }

  function refuseLocked({ client }: Origin, key: string, nowMs: number): void {
    const remainingMs = (counters.get(key)?.lockedUntilMs ?? -Infinity) - nowMs
    if (remainingMs > 0) refuse(client, lockedOut(remainingMs))
  }

  function count(client: ClientAddress, key: string, nowMs: number): void {
    latestAtMs[failures++ % brakeAfterFailures] = nowMs
    const failuresAtMs = [...recentOf(counters.get(key), nowMs), nowMs]
    const isLocked = failuresAtMs.length >= maxFailures
    counters.delete(key)
    counters.set(key, isLocked ? { failuresAtMs: [], lockedUntilMs: nowMs + lockMs } : { failuresAtMs, lockedUntilMs: -Infinity })
    if (counters.size > maxCounters) counters.delete(counters.keys().next().value as string)
    onFailure(client, isLocked ? 'locked' : 'wrong')
  }

  function verify<T>(origin: Origin, key: string, check: () => T | null): T | null {
    const nowMs = elapsedOf(clock)
    refuseLocked(origin, key, nowMs)
    const result = check()
    if (result === null) count(origin.client, key, nowMs)
    else remember(origin.client.witnessed)
    return result
  }

  function verifyInTurn<T>(origin: Origin, key: string, check: () => T | null): Promise<T | null> {
    const nowMs = elapsedOf(clock)
    const tooLongMs = queuedMs(nowMs) - maxCheckDelayMs
    if (waiting.has(key) || tooLongMs >= 0) refuse(origin.client, tooManyFailures(tooLongMs))
    waiting.add(key)
    return takeTurn(nowMs).then(() => {
      waiting.delete(key)
      return verify(origin, key, check)
    })
  }

  return {
    attempt(origin, check) {
      const { client } = origin
      if (client.local) return check()
      const nowMs = elapsedOf(clock)
      const place = placeOf(client.witnessed)
      const key = place.keys[wayOf(origin, place)]
      refuseLocked(origin, key, nowMs)
      if (!isBraking(nowMs)) return verify(origin, key, check)
      if (hasFailed(counters.get(key), nowMs)) return verifyInTurn(origin, key, check)
      const isFull = queuedMs(nowMs) >= maxDelayed * slotMs
      if (isFull && !known.has(client.witnessed)) refuse(client, tooManyFailures(slotMs))
      const result = verify(origin, key, check)
      return result === null && !isFull ? takeTurn(nowMs).then(() => null) : result
    }
  }
}

interface Place {
  /** Under which a failure is counted: the way it came, and the network. */
  keys: Record<Way, string>
  isLoopback: boolean
}

type Way = 'browser' | 'named' | 'program'

/** Addresses whose text was read: each request has one, and reading it costs ten times what the rest here does. */
const maxPlaces = 1000

function createPlaces(): (address: string) => Place {
  const places = new Map<string, Place>()
  return address => {
    const found = places.get(address)
    if (found !== undefined) return found
    const network = networkOf(address)
    const keys = { browser: `browser ${network}`, named: `named ${network}`, program: `program ${network}` }
    const place = { keys, isLoopback: isLoopback(address) }
    if (places.size >= maxPlaces) places.clear()
    places.set(address, place)
    return place
  }
}

function waitQuietly(ms: number): Promise<unknown> {
  return sleep(ms, undefined, { ref: false })
}

function recentOf(counter: Counter | undefined, nowMs: number): number[] {
  return counter?.failuresAtMs.filter(atMs => nowMs - atMs < windowMs) ?? []
}

function hasFailed(counter: Counter | undefined, nowMs: number): boolean {
  return recentOf(counter, nowMs).length > 0 || nowMs - (counter?.lockedUntilMs ?? -Infinity) < windowMs
}

/**
 * How a request came: `browser` if a page may have caused it, by its `Origin`, by the Fetch standard's metadata, or with
 * a ticket, which needs no header (`<img src>`). `named`: on this machine, under a host name; a page whose name was
 * rebound to 127.0.0.1 reads with GET and sends neither header. Programs send none of these.
 */
function wayOf({ headers, query }: Origin, { isLoopback }: Place): Way {
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) return 'browser'
  if (headers.authorization === undefined && query.has('ticket')) return 'browser'
  return isLoopback && isForeignName(headers.host ?? '') ? 'named' : 'program'
}

/** Whether a `Host` is neither `localhost` nor an address. */
function isForeignName(host: string): boolean {
  return host !== '' && !/^(?:localhost|[\d.]+|\[[^\]]*\])(?::\d*)?$/i.test(host)
}

function lockedOut(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.ceil(remainingMs / 1000)
  const sentence = `Too many failed attempts: this address is locked, try again in ${countOf(retryAfterSeconds, 'second')}`
  return new Refusal('too_many', 'locked_out', sentence, { retryAfterSeconds })
}

function tooManyFailures(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil(remainingMs / 1000))
  const sentence = `Too many failed attempts from many addresses: try again in ${countOf(retryAfterSeconds, 'second')}`
  return new Refusal('too_many', 'too_many_failures', sentence, { retryAfterSeconds })
}
