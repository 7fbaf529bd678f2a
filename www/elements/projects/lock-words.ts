import type { ListedLock } from '../../../lib/model/lock.js'
import { actorWords } from '../base/actor-words.js'
import { t } from '../../words/t.js'

/* Formats locks for people. Pure. */

/** The owner of the locks that this panel places. */
const signedIn = 'admin'

/** Whether the signed-in user placed the lock. */
export function isOwnLock({ owner }: Pick<ListedLock, 'owner'>): boolean {
  return owner === signedIn
}

/** Returns who placed the lock. */
export function ownerWords({ owner }: Pick<ListedLock, 'owner'>): string {
  if (owner.startsWith('project:')) return t('Deploy token of the project')
  return t(actorWords[owner] ?? owner)
}

/** Returns the locks that have not expired. */
export function inForce(locks: readonly ListedLock[], nowMs: number): readonly ListedLock[] {
  return locks.filter(({ expiresAt }) => Date.parse(expiresAt) > nowMs)
}
