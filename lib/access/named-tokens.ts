import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { Refusal, invalid, notFound } from '../base/errors.js'
import { writeChanges } from '../base/shared/audit.js'
import { matchesCidr, parseCidr, type Cidr } from '../http/core/headers.js'
import { type AccessRole, type AccessToken, tokenLimits } from '../model/access.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { changes, type Readers } from '../model/readers.js'
import { resemblesToken, tokenTextOf } from '../base/shared/token-text.js'
import type { Reader, Store, Transaction } from '../core/store/database.js'
import {
  countTokens,
  enrolledTokens,
  findToken,
  findTokenByName,
  insertToken,
  listTokens,
  removeTokensBefore,
  updateToken,
  type StoredToken
} from '../core/store/tables/access.js'
import { projectNames } from '../core/store/tables/projects.js'
import { digestText } from './secret.js'

/*
 * Named tokens: each person and each program has its own, with a role, a scope and an end. Only a digest of a secret is
 * stored: 256 random bits need no slow hash. A digest is looked up in a map; its timing reveals nothing of the secret.
 *
 * After a rotation with an overlap, a token has two secrets: `digest` and `oldDigest`, the latter until `oldExpiresAt`.
 * The last use is noted in memory and written once a minute.
 */
const minuteMs = 60_000
const dayMs = 24 * 60 * minuteMs
const defaultDays = 90
/** The same list each time, because the store caches its versions by list. */
const readTables = ['tokens', 'secondFactors'] as const
/** Days for which tokens that have ended stay in the list. */
const keptDays = 90

/** The caller that a named token identifies. */
export interface TokenCaller {
  readonly name: string
  readonly role: AccessRole
  /** The scope; null: all projects. */
  readonly projects: readonly string[] | null
  readonly token: { readonly id: string; readonly name: string }
  readonly showScripts: boolean
  /** Whether the token has expired, and may only finish what it began before. */
  readonly isLate?: true
  /** Whether the token opens sessions of the panel only. */
  readonly needsSecondFactor: boolean
}

/** The fields of a new token. */
export interface TokenFields {
  name: string
  role: AccessRole
  projectIds?: string[] | null | undefined
  /** Default: 90 days from now, or as long as the setting `token_max_days` allows. */
  expiresAt?: string | undefined
  allowedIps?: string[] | undefined
  showScripts?: boolean | undefined
}

/** A token with the secret that only its creation and its rotation return. */
export interface MintedToken {
  token: string
  record: AccessToken
}

/** A token that a sign-in found. */
export interface SignInToken {
  id: string
  digest: string
}

export interface NamedTokensNeeds {
  store: Store
  clock: Clock
  ids: Ids
  audit: { within(tx: Transaction, event: AuditEvent): void }
  settings: { number(key: 'token_max_days'): number }
  isProject(db: Reader, id: string): boolean
  /** Called when a token has ended, or its secret or rights have changed. */
  onEnd(id: string): void
}

interface Known {
  stored: StoredToken
  caller: TokenCaller
  networks: readonly Cidr[]
  expiresAtMs: number
  oldExpiresAtMs: number
}

/** What a secret belongs to; `isOld`: it was replaced by a rotation. */
interface Found {
  known: Known
  isOld: boolean
  digest: string
}

interface Use {
  atMs: number
  ip: string | null
  isOld: boolean
}

export class NamedTokens {
  readonly #needs: NamedTokensNeeds
  #uses = new Map<string, Use>()
  #timer: NodeJS.Timeout | undefined
  #version: string | null = null
  #byId = new Map<string, Known>()
  #byDigest = new Map<string, Known>()

  constructor(needs: NamedTokensNeeds) {
    this.#needs = needs
  }

  /**
   * Returns the caller that sent this secret; null if it is none of these. `finishes` says whether an expired token may
   * finish what it began. Refuses: 401 `token_expired`, `token_revoked`, 403 `second_factor_required`,
   * `address_not_allowed`.
   */
  callerOf(secret: string, address: string | null, finishes?: (tokenId: string) => boolean): TokenCaller | null {
    const match = this.#valid(secret, address, finishes)
    if (match === null) return null
    const { known, isOld } = match
    if (known.caller.needsSecondFactor) throw secondFactorRequired()
    this.#note(known.stored.id, address, isOld)
    return this.#needs.clock.now() < known.expiresAtMs ? known.caller : { ...known.caller, isLate: true }
  }

  /** Returns the token of a secret for a sign-in, which may need a second factor. Refuses as `callerOf` does. */
  signIn(secret: string, address: string | null): SignInToken | null {
    const match = this.#valid(secret, address)
    if (match === null) return null
    const { known, isOld, digest } = match
    this.#note(known.stored.id, address, isOld)
    return { id: known.stored.id, digest }
  }

  /**
   * Returns the caller of a secret once more, without noting a use. If it `finishes` what it began, the secret may have
   * expired. Refuses as `callerOf` does.
   */
  callerAgain(secret: string, address: string | null, finishes: boolean): TokenCaller | null {
    const { known, isOld } = this.#found(secret) ?? {}
    if (known === undefined) return null
    checkNotEnded(known, isOld === true, finishes ? -Infinity : this.#needs.clock.now())
    checkAddress(known, address)
    if (known.caller.needsSecondFactor) throw secondFactorRequired()
    return known.caller
  }

  /** Returns the caller of a session or ticket that began with a token. Null: it has ended. Refuses: 403 `address_not_allowed`. */
  callerById(id: string, address: string | null, isQuiet = false): TokenCaller | null {
    this.#refresh()
    const known = this.#byId.get(id)
    if (known === undefined || known.stored.revokedAt !== null || this.#needs.clock.now() >= known.expiresAtMs)
      return null
    checkAddress(known, address)
    if (!isQuiet) this.#note(id, address, false)
    return known.caller
  }

  /** Returns the digests of the secrets of a token that are valid now. Sessions are bound to one of them. */
  validDigests(id: string): readonly string[] {
    this.#refresh()
    const known = this.#byId.get(id)
    const nowMs = this.#needs.clock.now()
    if (known === undefined || known.stored.revokedAt !== null || nowMs >= known.expiresAtMs) return []
    const { digest, oldDigest } = known.stored
    return oldDigest === null || nowMs >= known.oldExpiresAtMs ? [digest] : [digest, oldDigest]
  }

  list(): AccessToken[] {
    const enrolled = enrolledTokens(this.#needs.store)
    return listTokens(this.#needs.store).map(stored => this.#view(stored, enrolled))
  }

  /** Refuses: 404. */
  get(id: string): AccessToken {
    return this.#view(existing(this.#needs.store, id), enrolledTokens(this.#needs.store))
  }

  /** Refuses: 400, 409 `name_taken`, `too_many_tokens`. */
  async create(
    { name, role, projectIds = null, expiresAt, allowedIps = [], showScripts = false }: TokenFields,
    actor: Actor
  ): Promise<MintedToken> {
    const { ids, clock, store, audit } = this.#needs
    const id = ids.id('tok_')
    const { token, digest } = this.#minted(id)
    checkAddresses(allowedIps)
    const stored: StoredToken = {
      id,
      name,
      digest,
      role,
      projectIds: projectIds === null ? null : [...new Set(projectIds)],
      allowedIps: [...allowedIps],
      showScripts,
      createdAt: new Date(clock.now()).toISOString(),
      createdBy: actor.name,
      expiresAt: this.#endOf(expiresAt, defaultDays * dayMs),
      lastUsedAt: null,
      lastUsedIp: null,
      rotatedAt: null,
      oldDigest: null,
      oldExpiresAt: null,
      oldLastUsedAt: null,
      revokedAt: null
    }
    await store.write(tx => {
      this.#removeOld(tx)
      if (countTokens(tx) >= tokenLimits.tokens) throw tooManyTokens()
      checkName(tx, name)
      this.#checkScope(tx, role, stored.projectIds)
      insertToken(tx, stored)
      const detail = writeChanges(name, changes(null, audited(tx, stored), auditReaders))
      audit.within(tx, { action: 'token.create', actor, target: id, detail })
    })
    return { token, record: this.#view(stored, new Set()) }
  }

  /** Changes the fields that are present. Refuses: 400, 404, 409 `name_taken`, `already_revoked`. */
  async update(id: string, fields: Partial<TokenFields>, actor: Actor): Promise<AccessToken> {
    const { store, audit } = this.#needs
    if (fields.allowedIps !== undefined) checkAddresses(fields.allowedIps)
    const patch: Partial<StoredToken> = {
      ...(fields.name !== undefined && { name: fields.name }),
      ...(fields.role !== undefined && { role: fields.role }),
      ...(fields.projectIds !== undefined && { projectIds: fields.projectIds && [...new Set(fields.projectIds)] }),
      ...(fields.allowedIps !== undefined && { allowedIps: fields.allowedIps }),
      ...(fields.showScripts !== undefined && { showScripts: fields.showScripts }),
      ...(fields.expiresAt !== undefined && { expiresAt: this.#endOf(fields.expiresAt, 0) })
    }
    const updated = await store.write(tx => {
      const stored = usable(tx, id)
      if (patch.name !== undefined) checkName(tx, patch.name, id)
      const next = { ...stored, ...patch }
      if (patch.role !== undefined || patch.projectIds !== undefined) this.#checkScope(tx, next.role, next.projectIds)
      updateToken(tx, id, patch)
      const changed = changes(audited(tx, stored), audited(tx, next), auditReaders)
      const detail = writeChanges(stored.name, changed)
      if (changed.length > 0) audit.within(tx, { action: 'token.update', actor, target: id, detail })
      return next
    })
    this.#needs.onEnd(id)
    return this.#view(updated, enrolledTokens(store))
  }

  /** Replaces the secret. The earlier one stays valid for `overlapSeconds`. Refuses: 400, 404, 409 `already_revoked`. */
  async rotate(
    id: string,
    { overlapSeconds, expiresAt }: { overlapSeconds: number; expiresAt?: string | undefined },
    actor: Actor
  ): Promise<MintedToken> {
    const { clock, store, audit } = this.#needs
    const { token, digest } = this.#minted(id)
    const nowMs = clock.now()
    const now = new Date(nowMs).toISOString()
    const rotated = await store.write(tx => {
      const stored = usable(tx, id)
      const hasEnded = nowMs >= Date.parse(stored.expiresAt)
      const overlapMs = hasEnded ? 0 : overlapSeconds * 1000
      // The earlier secret never lives longer than it would have without the rotation.
      const oldEndMs = Math.min(nowMs + overlapMs, Date.parse(stored.expiresAt))
      const lifeMs = Date.parse(stored.expiresAt) - Date.parse(stored.rotatedAt ?? stored.createdAt)
      const next: StoredToken = {
        ...stored,
        digest,
        expiresAt: this.#endOf(expiresAt, lifeMs),
        rotatedAt: now,
        oldDigest: overlapMs > 0 ? stored.digest : null,
        oldExpiresAt: overlapMs > 0 ? new Date(oldEndMs).toISOString() : null,
        oldLastUsedAt: null
      }
      updateToken(tx, id, next)
      const changed = changes(audited(tx, stored), audited(tx, next), auditReaders)
      const detail = writeChanges(`${next.name}, overlap ${overlapMs / 1000} s`, changed)
      audit.within(tx, { action: 'token.rotate', actor, target: id, detail })
      return next
    })
    this.#needs.onEnd(id)
    return { token, record: this.#view(rotated, enrolledTokens(store)) }
  }

  /** Ends a token at once. Refuses: 404, 409 `already_revoked`. */
  async revoke(id: string, actor: Actor): Promise<AccessToken> {
    const { clock, store, audit } = this.#needs
    const revokedAt = new Date(clock.now()).toISOString()
    const revoked = await store.write(tx => {
      const stored = usable(tx, id)
      const patch = { revokedAt, oldDigest: null, oldExpiresAt: null }
      updateToken(tx, id, patch)
      this.#removeOld(tx)
      audit.within(tx, { action: 'token.revoke', actor, target: id, detail: stored.name })
      return { ...stored, ...patch }
    })
    this.#needs.onEnd(id)
    return this.#view(revoked, enrolledTokens(store))
  }

  /** Writes when tokens were used last. */
  async flush(): Promise<void> {
    if (this.#uses.size === 0) return
    const written = this.#uses
    this.#uses = new Map()
    await this.#needs.store.write(tx => {
      for (const [id, { atMs, ip, isOld }] of written) {
        const at = new Date(atMs).toISOString()
        updateToken(tx, id, { lastUsedAt: at, lastUsedIp: ip, ...(isOld && { oldLastUsedAt: at }) })
      }
    })
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.flush()
  }

  /** Reads the tokens again if they have changed. */
  #refresh(): void {
    const { store } = this.#needs
    const now = store.version(readTables)
    if (now === this.#version) return
    const enrolled = enrolledTokens(store)
    const known = listTokens(store).map(stored => knownOf(stored, enrolled.has(stored.id)))
    this.#byId = new Map(known.map(each => [each.stored.id, each]))
    this.#byDigest = new Map(known.map(each => [each.stored.digest, each]))
    for (const each of known) if (each.stored.oldDigest !== null) this.#byDigest.set(each.stored.oldDigest, each)
    this.#version = now
  }

  #found(secret: string): Found | null {
    if (!resemblesToken(secret)) return null
    this.#refresh()
    const digest = digestText(secret)
    const known = this.#byDigest.get(digest)
    return known === undefined ? null : { known, isOld: known.stored.oldDigest === digest, digest }
  }

  /** Returns the token of a secret, if it is valid at this address. */
  #valid(secret: string, address: string | null, finishes?: (tokenId: string) => boolean): Found | null {
    const match = this.#found(secret)
    if (match === null) return null
    const { known, isOld } = match
    const nowMs = this.#needs.clock.now()
    const isLate = nowMs >= known.expiresAtMs && !isOld && finishes?.(known.stored.id) === true
    checkNotEnded(known, isOld, isLate ? known.expiresAtMs - 1 : nowMs)
    checkAddress(known, address)
    return match
  }

  #note(id: string, ip: string | null, isOld: boolean): void {
    const use = this.#uses.get(id)
    if (use === undefined) this.#uses.set(id, { atMs: this.#needs.clock.now(), ip, isOld })
    else {
      use.atMs = this.#needs.clock.now()
      use.ip = ip
      use.isOld = isOld
    }
    this.#watch()
  }

  #watch(): void {
    this.#timer ??= setInterval(() => void this.flush().catch(() => {}), minuteMs).unref()
  }

  #view(stored: StoredToken, enrolled: ReadonlySet<string>): AccessToken {
    const { digest: _, oldDigest: __, ...token } = stored
    const use = this.#uses.get(stored.id)
    const used = use && { lastUsedAt: new Date(use.atMs).toISOString(), lastUsedIp: use.ip }
    return { ...token, ...used, secondFactor: enrolled.has(stored.id) }
  }

  #checkScope(db: Reader, role: AccessRole, projectIds: readonly string[] | null): void {
    if (projectIds === null) return
    if (role === 'admin') {
      throw invalid('projectIds', 'A token of an admin concerns the whole server: it cannot be limited to projects')
    }
    if (projectIds.length === 0) throw invalid('projectIds', '"projectIds" is empty: name a project, or omit the field')
    const unknown = projectIds.find(id => !this.#needs.isProject(db, id))
    if (unknown !== undefined)
      throw invalid('projectIds', `"projectIds" contains "${unknown}": there is no such project`)
  }

  /** Returns the end of a token, checked against the setting. `usualMs` is the lifetime without a given end. */
  #endOf(given: string | undefined, usualMs: number): string {
    const nowMs = this.#needs.clock.now()
    const maxDays = this.#needs.settings.number('token_max_days')
    const latestMs = nowMs + maxDays * dayMs
    if (given === undefined) return new Date(Math.min(nowMs + usualMs, latestMs)).toISOString()
    const atMs = Date.parse(given)
    if (atMs <= nowMs) throw invalid('expiresAt', `"expiresAt" is ${given}, which is in the past`)
    // A client computes the end from its own clock, which may be a little ahead.
    if (atMs > latestMs + minuteMs) {
      throw invalid('expiresAt', `"expiresAt" is too late: the setting token_max_days allows ${maxDays} days from now`)
    }
    return new Date(atMs).toISOString()
  }

  #minted(id: string): { token: string; digest: string } {
    const token = tokenTextOf(id.slice('tok_'.length), this.#needs.ids.token())
    return { token, digest: digestText(token) }
  }

  #removeOld(tx: Transaction): void {
    removeTokensBefore(tx, new Date(this.#needs.clock.now() - keptDays * dayMs).toISOString())
  }
}

function existing(db: Reader, id: string): StoredToken {
  const stored = findToken(db, id)
  if (stored === undefined) throw notFound('Token', id)
  return stored
}

/** Returns a token that has not been revoked. */
function usable(db: Reader, id: string): StoredToken {
  const stored = existing(db, id)
  if (stored.revokedAt === null) return stored
  throw new Refusal('conflict', 'already_revoked', `The token "${stored.name}" was revoked. Create another one`)
}

function checkName(db: Reader, name: string, ownId?: string): void {
  const other = findTokenByName(db, name)
  if (other === undefined || other.id === ownId) return
  throw new Refusal('conflict', 'name_taken', `There is already a token "${other.name}"`, {
    field: 'name',
    other: { kind: 'token', id: other.id, name: other.name }
  })
}

function knownOf(stored: StoredToken, needsSecondFactor: boolean): Known {
  const { id, name, role, projectIds, showScripts } = stored
  return {
    stored,
    caller: { name: `token:${name}`, role, projects: projectIds, token: { id, name }, showScripts, needsSecondFactor },
    networks: stored.allowedIps.flatMap(item => parseCidr(item) ?? []),
    expiresAtMs: Date.parse(stored.expiresAt),
    oldExpiresAtMs: stored.oldExpiresAt === null ? -Infinity : Date.parse(stored.oldExpiresAt)
  }
}

/** Only somebody who has the secret learns that it was valid once. */
function checkNotEnded({ stored, expiresAtMs, oldExpiresAtMs }: Known, isOld: boolean, nowMs: number): void {
  if (stored.revokedAt !== null) {
    throw new Refusal('unauthorized', 'token_revoked', `The token "${stored.name}" was revoked`)
  }
  if (nowMs >= expiresAtMs) {
    const end = stored.expiresAt.slice(0, 16).replace('T', ' ')
    throw new Refusal('unauthorized', 'token_expired', `The token "${stored.name}" expired at ${end} UTC`)
  }
  if (isOld && nowMs >= oldExpiresAtMs) {
    throw new Refusal('unauthorized', 'token_expired', `The token "${stored.name}" has a new secret: this one expired`)
  }
}

function checkAddress({ networks, stored }: Known, address: string | null): void {
  if (stored.allowedIps.length === 0 || address === null || matchesCidr(address, networks)) return
  const sentence = `Permission denied: the token "${stored.name}" is not accepted from the address "${address}"`
  throw new Refusal('forbidden', 'address_not_allowed', sentence)
}

function checkAddresses(addresses: readonly string[]): void {
  const wrong = addresses.find(each => parseCidr(each) === undefined)
  if (wrong === undefined) return
  throw invalid('allowedIps', `"allowedIps" contains "${wrong}": expected an address or a block such as 10.0.0.0/8`)
}

function secondFactorRequired(): Refusal {
  const sentence = 'This token has a second factor: it opens sessions of the panel and nothing else'
  return new Refusal('forbidden', 'second_factor_required', sentence)
}

function tooManyTokens(): Refusal {
  const sentence = `Cannot create a token: there are already ${tokenLimits.tokens}. Revoke some that are not used`
  return new Refusal('conflict', 'too_many_tokens', sentence)
}

/** The rights of a token, and until when it has them. */
type Rights = Pick<StoredToken, 'name' | 'role' | 'projectIds' | 'allowedIps' | 'showScripts' | 'expiresAt'>

const auditReaders: Readers<Rights> = {
  fields: {
    name: 'everybody',
    role: 'everybody',
    projectIds: { items: 'everybody' },
    allowedIps: { items: 'everybody' },
    showScripts: 'everybody',
    expiresAt: 'everybody'
  }
}

/** Returns a token as its audit entries show it. */
function audited(db: Reader, token: StoredToken): Rights {
  const { projectIds, allowedIps } = token
  return {
    ...token,
    projectIds: projectIds === null ? ['all'] : projectNames(db, projectIds),
    allowedIps: allowedIps.length === 0 ? ['all'] : allowedIps
  }
}
