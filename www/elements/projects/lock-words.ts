import type { Restriction } from '../../server/lock-calls.js'
import { actorName } from '../base/actor-words.js'
import { holderNow } from '../../state/rights.js'
import { t } from '../../words/t.js'

/* Formats locks for people. Pure. */

/** Whether the signed-in user placed the lock. */
export function isOwnLock({ owner }: Pick<Restriction, 'owner'>): boolean {
  return owner === (holderNow()?.name ?? 'admin')
}

/** Returns who placed the lock. */
export function ownerWords({ owner }: Pick<Restriction, 'owner'>): string {
  if (owner.startsWith('project:')) return t('Deploy token of the project')
  return actorName(owner)
}

/** Returns the locks that have not expired. A maintenance never expires. */
export function inForce(locks: readonly Restriction[], nowMs: number): readonly Restriction[] {
  return locks.filter(({ expiresAt }) => expiresAt === null || Date.parse(expiresAt) > nowMs)
}
