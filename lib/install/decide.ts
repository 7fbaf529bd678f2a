/*
 * What a deployment does about one entry of the target. A plan (compare.ts) and the deployment itself (reckon.ts) both
 * ask here, so a plan says what then happens. An edit that equals the new contents is not lost, and does not count.
 */
import type { Ownership } from './ownership.js'
import { takesUnowned } from './unowned.js'

/** What a deployment knows about an entry before it decides. */
export interface Known {
  /** Whether there is an entry in the target. */
  isThere: boolean
  /** Whether it has the contents and the type that svc put there; null: svc never put anything there. */
  isAsOwned: boolean | null
  /**
   * Whether it has the contents and the type that the archive has; null: the archive does not contain the path, and
   * svc would remove it.
   */
  isAsWanted: boolean | null
}

/** The decision about an entry. */
export interface Decision {
  /** `leave`: nothing is lost by it; `keep`: it stays because somebody else has changed it. */
  does: 'add' | 'leave' | 'replace' | 'remove' | 'keep'
  /** Whether what somebody edited, or put there without svc, is lost in the target. Policy "drift" is about these. */
  losesEdit: boolean
  /** Where the earlier contents are kept: with the deployment that put them there, or in the before-images. */
  keptIn: 'deployment' | 'before' | null
}

/** Decides about one entry. */
export function decide(
  { isThere, isAsOwned, isAsWanted }: Known,
  { edited, removes, isUnknown = false }: Pick<Ownership, 'edited' | 'removes' | 'isUnknown'>
): Decision {
  const lost = {
    losesEdit: isAsOwned === false || (isAsOwned === null && !isUnknown),
    keptIn: isAsOwned ? 'deployment' : 'before'
  } as const
  const none = { losesEdit: false, keptIn: null } as const
  if (!isThere) {
    // Somebody removed a file that an exact change would bring back.
    if (isAsWanted !== null && isAsOwned !== null && edited === 'keep') return { does: 'keep', ...none }
    return { does: isAsWanted === null ? 'leave' : 'add', ...none }
  }
  if (isAsWanted === true) return { does: 'leave', ...none }
  if (isAsOwned !== true && edited === 'keep') return { does: 'keep', ...none }
  if (isAsWanted === false) return { does: 'replace', ...lost }
  // A file that svc does not know any more as its own is not pruned, unless those that it never knew are.
  const isTaken = isAsOwned === null && takesUnowned(removes)
  if (isAsOwned !== true && removes?.kind !== 'listed' && !isTaken) return { does: 'keep', ...none }
  return { does: 'remove', ...lost }
}
