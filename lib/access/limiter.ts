import { setTimeout as sleep } from 'node:timers/promises'
import { type Clock, elapsedOf } from '../base/clock.js'
import { countOf } from '../base/text.js'
import { Refusal } from '../base/errors.js'
import { isFixedName, isLoopback, networkOf, parseHost } from '../http/core/headers.js'
import type { ClientAddress, RequestFacts } from '../http/core/route.js'
import { digestText } from './secret.js'

/*
 * Slows down the guessing of tokens (§5.7). Every check of a secret passes through one limiter: login, token change,
 * bearer tokens, tickets and the terminal's subprotocol.
 *
 *   per network     8 failures in 10 minutes lock it for 5 minutes. A network is an IPv4 address, or the /64 of an IPv6
 *                   address, as witnessed. A success does not reset the count.
 *   login           While its network is locked, a login or a change of the token is refused without a check.
 *   bearers         Elsewhere the lock stops wrong tokens only, because others share the address. A token of the form that
 *                   svc generates is always checked at once: nobody guesses 256 random bits. Any other one takes a
 *                   place in a small queue, one check a second for all networks together.
 *   claimed         The first entry of X-Forwarded-For is counted, too. Anybody can invent it, so a lock by that entry
 *                   alone stops wrong tokens only, everywhere.
 *   total           After 200 failures in 10 minutes, further failures are answered one by one, a second apart.
 *                   A network that failed before waits before its next secret is checked. A network without a failure
 *                   is checked at once, and only its failure is answered late. While that queue is full, only addresses
 *                   that sent a valid secret before are checked. Others are refused without a check, because a process
 *                   that speaks for a trusted proxy (by default any on this machine) can invent addresses.
 *
 * Failures are counted per network and origin (`wayOf`): requests that a web page makes a browser send must not lock
 * out the command line on the same machine.
 */
const brakeAfterFailures = 200
const slotMs = 1000
/** Maximum number of delayed answers. A guesser gets this many guesses at once, then one per slot. */
const maxDelayed = 1000
/** Maximum wait of a check. */
const maxCheckDelayMs = 30 * slotMs
/** Maximum number of secrets of one network that wait for a check, so that none can fill the queue alone. */
const maxWaiting = 8
/** Maximum number of addresses remembered for a valid secret. */
const maxKnown = 20_000

/** The parts of a request that failures are counted by. Requests through the local operator's socket are exempt. */
export type Origin = Pick<RequestFacts, 'headers' | 'query' | 'client'>

/** `wrong`: a failed attempt. `locked`: the failure that locked the network. `refused`: not checked. */
export type Failure = 'wrong' | 'locked' | 'refused'

interface LimiterNeeds {
  clock: Clock
  /** Called for every failure. */
  onFailure(client: ClientAddress, failure: Failure): void
  /** Delays an answer. */
  wait?: (ms: number) => Promise<unknown>
}

/** One attempt: what its failure is counted by, and its check. */
interface Attempt<T> {
  client: ClientAddress
  /** The network and the way, as witnessed. */
  key: string
  /** The same of the address that the client claims; null: it is the witnessed one. */
  claimedKey: string | null
  check: () => T | null
  /** Null: a lock stops right ones, too. */
  secret: string | null
}

/** Limits failed attempts. */
export class Limiter {
  readonly #needs: LimiterNeeds
  readonly #wait: (ms: number) => Promise<unknown>
  readonly #counters = createFailureCounters()
  /** Apart, so that invented addresses displace no others. */
  readonly #claimed = createFailureCounters()
  /** The times of the last failures of all networks, as a ring buffer. */
  readonly #latestAtMs = new Array<number>(brakeAfterFailures).fill(-Infinity)
  #failures = 0
  #queueEndsAtMs = -Infinity
  /** For each network, the turns of the secrets that wait in the queue. */
  readonly #waiting = new Map<string, Map<string, Promise<unknown>>>()
  readonly #known = new Set<string>()
  readonly #placeOf = createPlaces()

  constructor(needs: LimiterNeeds) {
    this.#needs = needs
    this.#wait = needs.wait ?? waitQuietly
  }

  /**
   * Runs `check` at most once, unless the request's network is locked. Null counts as a failure. With a `secret`, the lock
   * stops wrong ones only. Returns a promise only if the answer is delayed. Refuses: 429 `locked_out`, or 429
   * `too_many_failures` if too many are waiting, both with the seconds left.
   */
  attempt<T>(
    origin: Origin,
    check: () => T | null,
    { secret = null }: { secret?: string | null } = {}
  ): T | null | Promise<T | null> {
    const { client } = origin
    if (client.local) return check()
    const place = this.#placeOf(client.witnessed)
    const way = wayOf(origin, place)
    const key = place.keys[way]
    const attempt = { client, key, claimedKey: this.#claimedKeyOf(client, { place, way }), check, secret }
    const nowMs = elapsedOf(this.#needs.clock)
    const isLimited = this.#isBraking(nowMs) || this.#counters.lockedMs(key, nowMs) > 0
    return isLimited ? this.#limited(attempt, nowMs) : this.#verify(attempt)
  }

  #isBraking(nowMs: number): boolean {
    return nowMs - (this.#latestAtMs[this.#failures % brakeAfterFailures] as number) < windowMs
  }

  #queuedMs(nowMs: number): number {
    return Math.max(0, this.#queueEndsAtMs - nowMs)
  }

  /** Waits at the end of the queue. */
  #takeTurn(nowMs: number): Promise<unknown> {
    this.#queueEndsAtMs = nowMs + this.#queuedMs(nowMs) + slotMs
    return this.#wait(this.#queueEndsAtMs - nowMs)
  }

  #remember(address: string): void {
    if (this.#known.has(address)) return
    this.#known.add(address)
    if (this.#known.size > maxKnown) this.#known.delete(this.#known.keys().next().value as string)
  }

  #refuse(client: ClientAddress, refusal: Refusal): never {
    this.#needs.onFailure(client, 'refused')
    throw refusal
  }

  #refuseWrong(client: ClientAddress, lockedMs: number): never {
    this.#needs.onFailure(client, 'wrong')
    throw wrongAndLocked(lockedMs)
  }

  /** Returns the key of the claimed address; null: its network is the witnessed one. */
  #claimedKeyOf({ address, witnessed }: ClientAddress, seen: { place: Place; way: Way }): string | null {
    if (address === witnessed) return null
    const { network, keys } = this.#placeOf(address)
    return network === seen.place.network ? null : keys[seen.way]
  }

  #count({ client, key, claimedKey }: Attempt<unknown>, nowMs: number): void {
    this.#latestAtMs[this.#failures++ % brakeAfterFailures] = nowMs
    const isLocked = this.#counters.count(key, nowMs)
    if (claimedKey !== null) this.#claimed.count(claimedKey, nowMs)
    this.#needs.onFailure(client, isLocked ? 'locked' : 'wrong')
  }

  #verify<T>(attempt: Attempt<T>): T | null {
    const { client, key, claimedKey, check, secret } = attempt
    const nowMs = elapsedOf(this.#needs.clock)
    const lockedMs = this.#counters.lockedMs(key, nowMs)
    if (lockedMs > 0 && secret === null) this.#refuse(client, lockedOut(lockedMs))
    const result = check()
    if (result !== null) {
      this.#remember(client.witnessed)
      return result
    }
    // The queue limits these checks already, so they are not counted.
    if (lockedMs > 0) this.#refuseWrong(client, lockedMs)
    const claimedMs = claimedKey === null ? 0 : this.#claimed.lockedMs(claimedKey, nowMs)
    this.#count(attempt, nowMs)
    if (claimedMs > 0) throw wrongAndLocked(claimedMs)
    return null
  }

  /**
   * Checks after a turn of the queue. Requests with the same secret share a turn, because they are one guess: many jobs
   * with one old token take one place.
   */
  #verifyInTurn<T>(attempt: Attempt<T>): Promise<T | null> {
    const { client, key, secret } = attempt
    const digest = secret === null ? null : digestText(secret)
    const nowMs = elapsedOf(this.#needs.clock)
    const turns = this.#waiting.get(key) ?? new Map<string, Promise<unknown>>()
    const shared = digest === null ? undefined : turns.get(digest)
    if (shared !== undefined) return shared.then(() => this.#verify(attempt))
    const tooLongMs = this.#queuedMs(nowMs) - maxCheckDelayMs
    const isFull = digest === null ? turns.size > 0 : turns.size >= maxWaiting
    if (isFull || tooLongMs >= 0) this.#refuse(client, tooManyFailures(tooLongMs))
    const place = digest ?? ''
    const turn = this.#takeTurn(nowMs).then(() => {
      turns.delete(place)
      if (turns.size === 0) this.#waiting.delete(key)
    })
    this.#waiting.set(key, turns.set(place, turn))
    return turn.then(() => this.#verify(attempt))
  }

  /** While the network is locked, or while all are braked. */
  #limited<T>(attempt: Attempt<T>, nowMs: number): T | null | Promise<T | null> {
    const { client, key, secret } = attempt
    const lockedMs = this.#counters.lockedMs(key, nowMs)
    if (secret !== null && isGenerated(secret)) {
      const result = attempt.check()
      if (result !== null) {
        this.#remember(client.witnessed)
        return result
      }
      if (lockedMs > 0) this.#refuseWrong(client, lockedMs)
      return this.#braked({ ...attempt, check: () => null }, nowMs)
    }
    if (lockedMs === 0) return this.#braked(attempt, nowMs)
    return secret === null ? this.#refuse(client, lockedOut(lockedMs)) : this.#verifyInTurn(attempt)
  }

  #braked<T>(attempt: Attempt<T>, nowMs: number): T | null | Promise<T | null> {
    const { client, key } = attempt
    if (this.#counters.hasFailed(key, nowMs)) return this.#verifyInTurn(attempt)
    const isFull = this.#queuedMs(nowMs) >= maxDelayed * slotMs
    if (isFull && !this.#known.has(client.witnessed)) this.#refuse(client, tooManyFailures(slotMs))
    const result = this.#verify(attempt)
    return result === null && !isFull ? this.#takeTurn(nowMs).then(() => null) : result
  }
}

const generated = /^[\w-]{43}$/
const hexadecimal = /^[\da-f]{64,}$/i
/** A random text of that length has fewer different characters once in a million years. */
const minDistinct = 10

/**
 * Whether a secret has the form of 32 random bytes or more, so that nobody guesses it: base64url, as svc writes it, alone or
 * at the end of a named token, or hexadecimal.
 */
function isGenerated(secret: string): boolean {
  const end = secret.slice(-43)
  const isMixed = generated.test(end) && /[a-z]/.test(end) && /[A-Z]/.test(end) && /\d/.test(end)
  return (isMixed || hexadecimal.test(secret)) && new Set(end).size >= minDistinct
}

interface Place {
  network: string
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
    const place = { network, keys, isLoopback: isLoopback(address) }
    if (places.size >= maxPlaces) places.clear()
    places.set(address, place)
    return place
  }
}

function waitQuietly(ms: number): Promise<unknown> {
  return sleep(ms, undefined, { ref: false })
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
  const name = parseHost(host)?.name
  return name === undefined || (name !== '' && !isFixedName(name))
}

function lockedOut(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.ceil(remainingMs / 1000)
  const waitTime = countOf(retryAfterSeconds, 'second')
  const sentence = `Too many failed attempts: this address is locked. Try again in ${waitTime}`
  return new Refusal('too_many', 'locked_out', sentence, { retryAfterSeconds })
}

/** The refusal of a wrong token. A right one would have passed, so it does not say "try again". */
function wrongAndLocked(remainingMs: number): Refusal {
  const sentence =
    'Too many failed attempts from this address, and this token is not valid here either. Use a valid one'
  return new Refusal('too_many', 'locked_out', sentence, { retryAfterSeconds: Math.ceil(remainingMs / 1000) })
}

function tooManyFailures(remainingMs: number): Refusal {
  const retryAfterSeconds = Math.max(1, Math.ceil(remainingMs / 1000))
  const sentence = `Too many failed attempts are waiting for a check. Try again in ${countOf(retryAfterSeconds, 'second')}`
  return new Refusal('too_many', 'too_many_failures', sentence, { retryAfterSeconds })
}

/*
 * Counts failed attempts by key (§5.7): 8 failures in 10 minutes lock a key for 5 minutes. A success does not reset the
 * count, and a failure during the lock does not prolong it.
 */
/** The time in which failures count together. */
const windowMs = 10 * 60_000 // §8
const lockMs = 5 * 60_000 // §8
const maxFailures = 8 // §8
/** Maximum number of keys. The one with the oldest failure is removed first. */
const maxKeys = 20_000

interface Counter {
  failuresAtMs: number[]
  lockedUntilMs: number
}

export function createFailureCounters() {
  const counters = new Map<string, Counter>()

  const lockedMs = (key: string, nowMs: number): number =>
    Math.max(0, (counters.get(key)?.lockedUntilMs ?? -Infinity) - nowMs)

  return {
    /** Returns the time left of the lock of a key; 0: it is not locked. */
    lockedMs,

    /** Whether the key has a failure, or a lock, of the last 10 minutes. */
    hasFailed(key: string, nowMs: number): boolean {
      const counter = counters.get(key)
      return recentOf(counter, nowMs).length > 0 || nowMs - (counter?.lockedUntilMs ?? -Infinity) < windowMs
    },

    /** Counts a failure. Returns whether it locked the key. */
    count(key: string, nowMs: number): boolean {
      if (lockedMs(key, nowMs) > 0) return false
      const failuresAtMs = [...recentOf(counters.get(key), nowMs), nowMs]
      const isLocked = failuresAtMs.length >= maxFailures
      counters.delete(key)
      counters.set(
        key,
        isLocked ? { failuresAtMs: [], lockedUntilMs: nowMs + lockMs } : { failuresAtMs, lockedUntilMs: -Infinity }
      )
      if (counters.size > maxKeys) counters.delete(counters.keys().next().value as string)
      return isLocked
    }
  }
}

function recentOf(counter: Counter | undefined, nowMs: number): number[] {
  return counter?.failuresAtMs.filter(atMs => nowMs - atMs < windowMs) ?? []
}
