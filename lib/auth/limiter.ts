import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { countOf } from '../base/count.js'
import { Refusal } from '../base/refusal.js'
import { isLoopback, networkOf } from '../http/core/client-address.js'
import type { ClientAddress, RequestFacts } from '../http/core/route.js'

/*
 * Slows down the guessing of tokens (§5.7). Every check of a secret passes through one limiter: login, token change,
 * bearer tokens, tickets and the terminal's subprotocol.
 *
 *   per network     8 failures in 10 minutes lock it for 5 minutes. A network is an IPv4 address, or the /64 of an IPv6
 *                   address, as witnessed. A success does not reset the count.
 *   total           After 200 failures in 10 minutes, further failures are answered one by one, a second apart.
 *                   A network that failed before waits before its next secret is checked. A network without a failure
 *                   is checked at once, and only its failure is answered late. While that queue is full, only addresses
 *                   that sent a valid secret before are checked. Others are refused without a check, because a process
 *                   that speaks for a trusted proxy (by default any on this machine) can invent addresses.
 *
 * Failures are counted per network and origin (`wayOf`): requests that a web page makes a browser send must not lock
 * out the command line on the same machine.
 */
const windowMs = 10 * 60_000 // §8
const lockMs = 5 * 60_000 // §8
const maxFailures = 8 // §8
const brakeAfterFailures = 200
const slotMs = 1000
/** Maximum number of delayed answers. A guesser gets this many guesses at once, then one per slot. */
const maxDelayed = 1000
/** Maximum wait of a check. */
const maxCheckDelayMs = 30 * slotMs
/** Maximum number of networks. The one with the oldest failure is removed first. The brake allows fewer. */
const maxCounters = 20_000
/** Maximum number of addresses remembered for a valid secret. */
const maxKnown = 20_000

/** The parts of a request that failures are counted by. Requests through the local operator's socket are exempt. */
export type Origin = Pick<RequestFacts, 'headers' | 'query' | 'client'>

/** `wrong`: a failed attempt. `locked`: the failure that locked the network. `refused`: not checked. */
export type Failure = 'wrong' | 'locked' | 'refused'

/** Limits failed attempts. */
export interface Limiter {
  /**
   * Runs `check` unless the request's network is locked. Null counts as a failure. Returns a promise only if the answer
   * is delayed. Refuses: 429 `locked_out`, or 429 `too_many_failures` if too many are waiting, both with the seconds
   * left.
   */
  attempt<T>(origin: Origin, check: () => T | null): T | null | Promise<T | null>
}

interface Counter {
  failuresAtMs: number[]
  lockedUntilMs: number
}

interface LimiterNeeds {
  clock: Clock
  /** Called for every failure. */
  onFailure(client: ClientAddress, failure: Failure): void
  /** Delays an answer. */
  wait?: (ms: number) => Promise<unknown>
}

/** Creates a limiter. */
export function createLimiter({ clock, onFailure, wait = waitQuietly }: LimiterNeeds): Limiter {
  const counters = new Map<string, Counter>()
  /** The times of the last failures of all networks, as a ring buffer. */
  const latestAtMs = new Array<number>(brakeAfterFailures).fill(-Infinity)
  let failures = 0
  let queueEndsAtMs = -Infinity
  /** Networks with an attempt in the queue. Each has one place, so that none can fill the queue alone. */
  const waiting = new Set<string>()
  const known = new Set<string>()
  const placeOf = createPlaces()

  const isBraking = (nowMs: number): boolean => nowMs - (latestAtMs[failures % brakeAfterFailures] as number) < windowMs

  const queuedMs = (nowMs: number): number => Math.max(0, queueEndsAtMs - nowMs)

  /** Waits at the end of the queue. */
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
    counters.set(
      key,
      isLocked ? { failuresAtMs: [], lockedUntilMs: nowMs + lockMs } : { failuresAtMs, lockedUntilMs: -Infinity }
    )
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
  /** The keys of the failure counters: the origin and the network. */
  keys: Record<Way, string>
  isLoopback: boolean
}

type Way = 'browser' | 'named' | 'program'

/** Maximum number of cached addresses. Every request has one, and parsing it takes ten times as long as the rest. */
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
 * Returns the origin of a request. `browser`: a page may have caused it, because it has `Origin`, the Fetch standard's
 * metadata, or a ticket, which needs no header (`<img src>`). `named`: it comes from this machine with a host name. A
 * page whose name was rebound to 127.0.0.1 can send such a GET without either header. `program`: all others.
 */
function wayOf({ headers, query }: Origin, { isLoopback }: Place): Way {
  if (headers.origin !== undefined || headers['sec-fetch-site'] !== undefined) return 'browser'
  if (headers.authorization === undefined && query.has('ticket')) return 'browser'
  return isLoopback && isForeignName(headers.host ?? '') ? 'named' : 'program'
}

/** Whether a `Host` header is neither `localhost` nor an address. */
function isForeignName(host: string): boolean {
  return host !== '' && !/^(?:localhost|[\d.]+|\[[^\]]*\])(?::\d*)?$/i.test(host)
}

function lockedOut(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.ceil(remainingMs / 1000)
  const waitTime = countOf(retryAfterSeconds, 'second')
  const sentence = `Too many failed attempts: this address is locked. Try again in ${waitTime}`
  return new Refusal('too_many', 'locked_out', sentence, { retryAfterSeconds })
}

function tooManyFailures(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil(remainingMs / 1000))
  const sentence = `Too many failed attempts from many addresses. Try again in ${countOf(retryAfterSeconds, 'second')}`
  return new Refusal('too_many', 'too_many_failures', sentence, { retryAfterSeconds })
}
