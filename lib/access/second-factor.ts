import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { type Clock, instantOf } from '../base/clock.js'
import { countOf } from '../base/text.js'
import { Refusal } from '../base/errors.js'
import { writeChanges } from '../base/shared/audit.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { changes, type Readers } from '../model/readers.js'
import type { TokenLock } from '../model/access.js'
import type { Store, Transaction } from '../core/store/database.js'
import { deleteFactor, findFactor, putFactor, type StoredFactor } from '../core/store/tables/access.js'
import type { Limiter, Origin } from './limiter.js'
import { codeRequired, type FoundSession } from './sessions.js'

/** A named token, for its second factor. */
export interface FactorOwner {
  id: string
  name: string
}

/** A second factor that was begun: what an authenticator needs. It is shown once. */
export interface Enrolment {
  /** The secret in base32, to be typed. */
  secret: string
  /** The same as an address. */
  link: string
}

/*
 * Six digits can be guessed, so wrong codes are counted for the token, whatever addresses they come from: ten within a
 * day lock it for 15 minutes. The count is in the store, and a right code does not reset it: its owner signs in meanwhile.
 */
const maxWrongCodes = 10
const lockMs = 15 * 60_000
const countedMs = 24 * 60 * 60_000

/** A code, and who gives it. */
interface Given<Code> {
  code: Code
  origin: Origin
  actor: EnrollingActor
}

/** `session`: the browser session of the request. */
type EnrollingActor = Actor & { session?: Pick<FoundSession, 'id'> | undefined }

/** The second factors of named tokens: codes of an authenticator, and recovery codes that work once. */
export type SecondFactors = ReturnType<typeof createSecondFactors>

/** Encrypts the secrets in the database. */
export interface Sealing {
  seal(tokenId: string, secret: string): Promise<string>
  /** Refuses: 503 `variables_key`. */
  unseal(tokenId: string, sealed: string): Promise<string>
}

interface Needs {
  store: Store
  clock: Clock
  limiter: Limiter
  sealing: Sealing
  audit: { record(event: AuditEvent): Promise<void>; within(tx: Transaction, event: AuditEvent): void }
  /** Ends the sessions of a token in a transaction, except one. */
  sessions: { removeOf(tx: Transaction, tokenId: string, kept: string): number }
  /** Called when wrong codes have locked a token. */
  onLocked(lock: Omit<TokenLock, 'token'> & { tokenId: string }): void
}

/** What a correct code was: a step of the authenticator, or the digest of a recovery code. */
type Match = { step: number } | { recovery: string }

export function createSecondFactors(needs: Needs) {
  const { store, clock, sealing, audit, sessions } = needs

  return {
    /**
     * Begins an enrolment. The token needs no code before it is confirmed. Refuses, audited: 409 `no_session`; 409
     * `factor_enrolled`.
     */
    async begin(owner: FactorOwner, { issuer, actor }: { issuer: string; actor: EnrollingActor }): Promise<Enrolment> {
      const { id, name } = owner
      await checkSession(needs, owner, actor)
      if (findFactor(store, id)?.confirmedAt != null) throw enrolled(name)
      const secret = newSecret()
      const sealed = await sealing.seal(id, secret)
      await store.write(tx => {
        if (findFactor(tx, id)?.confirmedAt != null) throw enrolled(name)
        const fresh = { confirmedAt: null, lastStep: 0, recovery: [], wrongAt: [], lockedUntil: null }
        putFactor(tx, { tokenId: id, secret: sealed, ...fresh })
      })
      return { secret, link: otpauthOf({ secret, account: name, issuer }) }
    },

    /**
     * Confirms an enrolment by its first code. Returns the recovery codes, which are shown once. The other sessions of the
     * token end: they began without a code. Refuses: as `begin`, 401 `wrong_code`, 429 `code_locked`, 409 `factor_not_begun`.
     */
    async confirm(owner: FactorOwner, given: Given<string>): Promise<string[]> {
      const { id, name } = owner
      const { actor } = given
      const kept = await checkSession(needs, owner, actor)
      const factor = findFactor(store, id)
      if (factor === undefined) throw notBegun(name)
      if (factor.confirmedAt !== null) throw enrolled(name)
      const match = await matchOf(needs, owner, { ...given, factor })
      const codes = newRecoveryCodes()
      await store.write(tx => {
        const used = use(tx, id, match)
        putFactor(tx, { ...used, confirmedAt: instantOf(clock), recovery: codes.map(recoveryDigest) })
        const ended = sessions.removeOf(tx, id, kept)
        const sentence = ended === 0 ? name : `${name}, ended ${countOf(ended, 'other session')}`
        const detail = writeChanges(sentence, changes({ secondFactor: false }, { secondFactor: true }, auditReaders))
        audit.within(tx, { action: 'second_factor.enrol', actor, target: id, detail })
      })
      return codes
    },

    /**
     * Checks a code of the authenticator or a recovery code, which is then used up. Returns whether the token has a second
     * factor. Refuses: 401 `code_required`, `wrong_code`, 429 `code_locked`, and as the limiter does.
     */
    async check(owner: FactorOwner, { code, ...given }: Given<string | undefined>): Promise<boolean> {
      const { id, name } = owner
      const factor = findFactor(store, id)
      if (factor?.confirmedAt == null) return false
      if (code === undefined) throw codeRequired()
      const match = await matchOf(needs, owner, { ...given, code, factor })
      await store.write(tx => {
        const { recovery } = use(tx, id, match)
        if ('step' in match) return
        const detail = `${name}, ${recovery.length} left`
        audit.within(tx, { action: 'second_factor.recovery', actor: given.actor, target: id, detail })
      })
      return true
    },

    /** Removes the second factor. Refuses: 404. Audited. */
    async remove({ id, name }: FactorOwner, actor: Actor): Promise<void> {
      await store.write(tx => {
        if (!deleteFactor(tx, id)) {
          throw new Refusal('not_found', 'not_found', `The token "${name}" has no second factor`)
        }
        const detail = writeChanges(name, changes({ secondFactor: true }, { secondFactor: false }, auditReaders))
        audit.within(tx, { action: 'second_factor.remove', actor, target: id, detail })
      })
    }
  }
}

const auditReaders: Readers<{ secondFactor: boolean }> = { fields: { secondFactor: 'everybody' } }

/**
 * Returns the session of an enrolment. The holder of a token that a program uses could otherwise make it one that opens the
 * panel only.
 */
async function checkSession({ audit }: Needs, { id, name }: FactorOwner, actor: EnrollingActor): Promise<string> {
  if (actor.session !== undefined) return actor.session.id
  await audit.record({
    action: 'second_factor.enrol',
    actor,
    ok: false,
    target: id,
    detail: `${name}, without a session`
  })
  const sentence = 'A second factor is added in a session of the panel. Sign in there with the token'
  throw new Refusal('conflict', 'no_session', sentence)
}

/** Returns how a code matches. A wrong one is counted, for the address and for the token. Refuses: 401 `wrong_code`, 429. */
async function matchOf(
  { store, clock, limiter, sealing, audit, onLocked }: Needs,
  { id, name }: FactorOwner,
  { factor, code, origin, actor }: Given<string> & { factor: StoredFactor }
): Promise<Match> {
  const secret = await sealing.unseal(id, factor.secret)
  let counted: Promise<string | null> | undefined
  const match = await limiter.attempt(origin, () => {
    const nowMs = clock.now()
    const current = findFactor(store, id)
    refuseLocked(name, current, nowMs)
    const step = stepOf(code, { secret, nowMs, lastStep: factor.lastStep })
    if (step !== null) return { step }
    const recovery = recoveryDigest(code)
    if (factor.recovery.includes(recovery)) return { recovery }
    // Counted in memory before this returns, so that requests at the same time are not too many.
    counted = store.write(tx => {
      const lockedUntil = countWrong(tx, id, nowMs)
      if (lockedUntil === null) return null
      const detail = `${name}, ${maxWrongCodes} wrong codes, until ${lockedUntil}`
      audit.within(tx, { action: 'second_factor.lock', actor, ok: false, target: id, detail })
      return lockedUntil
    })
    counted.catch(() => {})
    return null
  })
  if (match !== null) return match
  const lockedUntil = (await counted) ?? null
  if (lockedUntil !== null) onLocked({ tokenId: id, lockedUntil })
  throw wrongCode()
}

/** Counts a wrong code. Returns until when the token is locked if this code locked it. */
function countWrong(tx: Transaction, tokenId: string, nowMs: number): string | null {
  const factor = findFactor(tx, tokenId)
  if (factor === undefined) return null
  const wrongAt = [...factor.wrongAt.filter(at => nowMs - Date.parse(at) < countedMs), new Date(nowMs).toISOString()]
  const isLocked = wrongAt.length >= maxWrongCodes
  const lockedUntil = isLocked ? new Date(nowMs + lockMs).toISOString() : factor.lockedUntil
  putFactor(tx, { ...factor, wrongAt: isLocked ? [] : wrongAt, lockedUntil })
  return isLocked ? lockedUntil : null
}

/** Refuses every code, also a right one. */
function refuseLocked(name: string, factor: StoredFactor | undefined, nowMs: number): void {
  const leftMs = Date.parse(factor?.lockedUntil ?? '') - nowMs
  // A clock that was set back must not lock a token for longer than a lock lasts.
  if (!(leftMs > 0) || leftMs > lockMs) return
  const retryAfterSeconds = Math.ceil(leftMs / 1000)
  const waitTime = countOf(retryAfterSeconds, 'second')
  const sentence = `Too many wrong codes for the token "${name}": it is locked. Try again in ${waitTime}`
  throw new Refusal('too_many', 'code_locked', sentence, { retryAfterSeconds, field: 'code' })
}

/** Uses a code up. Of two requests with the same code, one is refused. */
function use(tx: Transaction, tokenId: string, match: Match): StoredFactor {
  const factor = findFactor(tx, tokenId)
  const isUnused =
    factor !== undefined && ('step' in match ? match.step > factor.lastStep : factor.recovery.includes(match.recovery))
  if (factor === undefined || !isUnused) throw wrongCode()
  const used =
    'step' in match
      ? { ...factor, lastStep: match.step }
      : { ...factor, recovery: factor.recovery.filter(each => each !== match.recovery) }
  putFactor(tx, used)
  return used
}

function wrongCode(): Refusal {
  return new Refusal('unauthorized', 'wrong_code', 'The code is wrong, or was used before', { field: 'code' })
}

function enrolled(name: string): Refusal {
  return new Refusal('conflict', 'factor_enrolled', `The token "${name}" already has a second factor. Remove it first`)
}

function notBegun(name: string): Refusal {
  return new Refusal('conflict', 'factor_not_begun', `No second factor was begun for the token "${name}"`)
}

/*
 * One-time codes of an authenticator: TOTP (RFC 6238) with HMAC-SHA-1, 30 seconds and six digits, which every
 * authenticator supports.
 */

const stepMs = 30_000
const digits = 6
/** 160 bits, the length that RFC 4226 §4 recommends. */
const secretBytes = 20
/** Steps before and after the current one whose codes are accepted, because clocks differ (RFC 6238 §5.2). */
const toleranceSteps = 1
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
/** 80 random bits: enough that a stored digest cannot be searched. */
const recoveryLength = 16
const recoveryCodes = 10

/** Returns a new secret in base32 (RFC 4648 §6). */
export function newSecret(): string {
  return base32(randomBytes(secretBytes))
}

/** Returns the address that an authenticator reads (Key URI Format). `account` names the token, `issuer` the server. */
export function otpauthOf({ secret, account, issuer }: { secret: string; account: string; issuer: string }): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(account)}`
  return `otpauth://totp/${label}?secret=${secret}&issuer=${encodeURIComponent(issuer)}&algorithm=SHA1&digits=6&period=30`
}

/** Returns the code of a step (RFC 4226 §5.3). */
export function codeOf(secret: string, step: number): string {
  const counter = Buffer.alloc(8)
  counter.writeBigUInt64BE(BigInt(step))
  const mac = createHmac('sha1', fromBase32(secret)).update(counter).digest()
  const offset = (mac.at(-1) as number) & 15
  const number = mac.readUInt32BE(offset) & 0x7fffffff
  return String(number % 10 ** digits).padStart(digits, '0')
}

/**
 * Returns the step whose code was given; null if it is none of the accepted ones. Steps up to `lastStep` are not
 * accepted again (RFC 6238 §5.2). Spaces in the code are ignored.
 */
export function stepOf(given: string, options: { secret: string; nowMs: number; lastStep: number }): number | null {
  const code = given.replaceAll(' ', '')
  if (!/^\d{6}$/.test(code)) return null
  const now = Math.floor(options.nowMs / stepMs)
  let found: number | null = null
  // Every candidate is compared, so that the time does not reveal which one was close.
  for (let step = now - toleranceSteps; step <= now + toleranceSteps; step++) {
    const isSame = timingSafeEqual(Buffer.from(codeOf(options.secret, step)), Buffer.from(code))
    if (isSame && step > options.lastStep) found ??= step
  }
  return found
}

/** Returns new recovery codes: `abcd-efgh-ijkl-mnop`. Each works once, instead of a code of the authenticator. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: recoveryCodes }, () => {
    const text = base32(randomBytes(recoveryLength)).slice(0, recoveryLength).toLowerCase()
    return (text.match(/.{4}/g) as string[]).join('-')
  })
}

/** Returns the digest that is stored of a recovery code. Case, spaces and hyphens do not matter. */
export function recoveryDigest(code: string): string {
  return createHash('sha256').update(code.toLowerCase().replaceAll(/[\s-]/g, '')).digest('base64url')
}

/** Encodes bytes in base32 without padding (RFC 4648 §6). */
function base32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let value = 0
  for (const byte of bytes) {
    value = (value << 8) | byte
    bits += 8
    for (; bits >= 5; bits -= 5) text += alphabet[(value >>> (bits - 5)) & 31]
    value &= 255
  }
  return bits === 0 ? text : text + alphabet[(value << (5 - bits)) & 31]
}

function fromBase32(text: string): Buffer {
  const bytes: number[] = []
  let bits = 0
  let value = 0
  for (const character of text.toUpperCase()) {
    value = (value << 5) | alphabet.indexOf(character)
    bits += 5
    if (bits < 8) continue
    bits -= 8
    bytes.push((value >>> bits) & 255)
    value &= (1 << bits) - 1
  }
  return Buffer.from(bytes)
}

/*
 * Some routes ask the user of a browser session to enter the token again if that was too long ago: a browser that was
 * left open must not be enough to change tokens and settings, to open a shell, or to take the data away. A bearer token
 * proves itself with each request.
 */

const minuteMs = 60_000

/** Checks how long ago the user of a session gave its secret. */
export type Proof = ReturnType<typeof createProof>

/** Creates the check. `minutes` returns the setting `proof_minutes`; 0: nobody is asked. */
export function createProof({ clock, minutes }: { clock: Clock; minutes(): number }) {
  const endMs = (provenAt: string | null): number =>
    provenAt === null ? -Infinity : Date.parse(provenAt) + minutes() * minuteMs
  const isRecent = (provenAt: string | null | undefined): boolean =>
    provenAt === undefined || minutes() === 0 || clock.now() < endMs(provenAt)
  return {
    /** Returns whether the secret was given recently enough. `provenAt` is undefined for a bearer token. */
    isRecent,
    /** Returns until when a session counts as proven; null: without an end. */
    until(provenAt: string | null): string | null {
      if (minutes() === 0) return null
      return new Date(Math.max(0, endMs(provenAt))).toISOString()
    },
    /** `provenAt` is undefined for a bearer token. Refuses: 403 `proof_required`. */
    check(provenAt: string | null | undefined): void {
      if (isRecent(provenAt)) return
      const sentence = 'Enter your token again: you signed in too long ago for this request'
      throw new Refusal('forbidden', 'proof_required', sentence)
    }
  }
}
