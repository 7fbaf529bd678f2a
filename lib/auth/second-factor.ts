import { type Clock, instantOf } from '../base/clock.js'
import { Refusal } from '../base/refusal.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import type { Store, Transaction } from '../store/database.js'
import { deleteFactor, findFactor, putFactor } from '../store/tables/second-factors.js'
import type { StoredFactor } from '../store/tables/second-factors.js'
import type { Limiter, Origin } from './limiter.js'
import { newRecoveryCodes, newSecret, otpauthOf, recoveryDigest, stepOf } from './totp.js'

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

/** The second factors of named tokens: codes of an authenticator, and recovery codes that work once. */
export interface SecondFactors {
  /** Begins an enrolment. The token needs no code before it is confirmed. Refuses: 409 `factor_enrolled`. */
  begin(owner: FactorOwner, issuer: string): Promise<Enrolment>
  /** Confirms an enrolment by its first code. Returns the recovery codes, which are shown once. Refuses: 401 `wrong_code`, 409. */
  confirm(owner: FactorOwner, given: { code: string; origin: Origin; actor: Actor }): Promise<string[]>
  /**
   * Checks a code of the authenticator or a recovery code, which is then used up. Does nothing if the token has no
   * second factor. Refuses: 401 `code_required`, `wrong_code`, and as the limiter does.
   */
  check(owner: FactorOwner, given: { code: string | undefined; origin: Origin; actor: Actor }): Promise<void>
  /** Removes the second factor. Refuses: 404. Audited. */
  remove(owner: FactorOwner, actor: Actor): Promise<void>
}

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
  audit: { within(tx: Transaction, event: AuditEvent): void }
}

/** What a correct code was: a step of the authenticator, or the digest of a recovery code. */
type Match = { step: number } | { recovery: string }

/** Creates the second factors of a server. */
export function createSecondFactors({ store, clock, limiter, sealing, audit }: Needs): SecondFactors {
  /** Returns how a code matches. A wrong one counts as a failed attempt. Refuses: 401 `wrong_code`. */
  async function matchOf(factor: StoredFactor, code: string, origin: Origin): Promise<Match> {
    const secret = await sealing.unseal(factor.tokenId, factor.secret)
    const match = await limiter.attempt(origin, () => {
      const step = stepOf(code, { secret, nowMs: clock.now(), lastStep: factor.lastStep })
      if (step !== null) return { step }
      const recovery = recoveryDigest(code)
      return factor.recovery.includes(recovery) ? { recovery } : null
    })
    if (match !== null) return match
    throw new Refusal('unauthorized', 'wrong_code', 'The code is wrong, or was used before', { field: 'code' })
  }

  /** Uses a code up. Of two requests with the same code, one is refused. */
  function use(tx: Transaction, tokenId: string, match: Match): StoredFactor {
    const factor = findFactor(tx, tokenId)
    const isUnused =
      factor !== undefined &&
      ('step' in match ? match.step > factor.lastStep : factor.recovery.includes(match.recovery))
    if (factor === undefined || !isUnused) {
      throw new Refusal('unauthorized', 'wrong_code', 'The code is wrong, or was used before', { field: 'code' })
    }
    const used =
      'step' in match
        ? { ...factor, lastStep: match.step }
        : { ...factor, recovery: factor.recovery.filter(each => each !== match.recovery) }
    putFactor(tx, used)
    return used
  }

  return {
    async begin({ id, name }, issuer) {
      if (findFactor(store, id)?.confirmedAt != null) throw enrolled(name)
      const secret = newSecret()
      const sealed = await sealing.seal(id, secret)
      await store.write(tx =>
        putFactor(tx, { tokenId: id, secret: sealed, confirmedAt: null, lastStep: 0, recovery: [] })
      )
      return { secret, link: otpauthOf({ secret, account: name, issuer }) }
    },

    async confirm({ id, name }, { code, origin, actor }) {
      const factor = findFactor(store, id)
      if (factor === undefined) throw notBegun(name)
      if (factor.confirmedAt !== null) throw enrolled(name)
      const match = await matchOf(factor, code, origin)
      const codes = newRecoveryCodes()
      await store.write(tx => {
        const used = use(tx, id, match)
        putFactor(tx, { ...used, confirmedAt: instantOf(clock), recovery: codes.map(recoveryDigest) })
        audit.within(tx, { action: 'second_factor.enrol', actor, target: id, detail: name })
      })
      return codes
    },

    async check({ id, name }, { code, origin, actor }) {
      const factor = findFactor(store, id)
      if (factor?.confirmedAt == null) return
      if (code === undefined) {
        throw new Refusal('unauthorized', 'code_required', 'A code of your authenticator is needed', { field: 'code' })
      }
      const match = await matchOf(factor, code, origin)
      await store.write(tx => {
        const { recovery } = use(tx, id, match)
        if ('step' in match) return
        const detail = `${name}, ${recovery.length} left`
        audit.within(tx, { action: 'second_factor.recovery', actor, target: id, detail })
      })
    },

    async remove({ id, name }, actor) {
      await store.write(tx => {
        if (!deleteFactor(tx, id)) {
          throw new Refusal('not_found', 'not_found', `The token "${name}" has no second factor`)
        }
        audit.within(tx, { action: 'second_factor.remove', actor, target: id, detail: name })
      })
    }
  }
}

function enrolled(name: string): Refusal {
  return new Refusal('conflict', 'factor_enrolled', `The token "${name}" already has a second factor. Remove it first`)
}

function notBegun(name: string): Refusal {
  return new Refusal('conflict', 'factor_not_begun', `No second factor was begun for the token "${name}"`)
}
