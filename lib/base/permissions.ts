import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/*
 * Checks that no other user can change a file, by the rules of sshd's StrictModes: only its owner may, and the owner
 * must be trusted. Windows has neither owners nor modes of this kind, so nothing is found there.
 */

/** A permission that lets another user change a file. */
export interface Looseness {
  path: string
  /** Reason, as a part of a sentence: `"/srv/svc" belongs to the user 1000`. */
  why: string
  /** The fix, as a sentence. */
  cure: string
}

const writableByGroup = 0o020
const writableByOthers = 0o002
const sticky = 0o1000
const root = 0

/** Returns the users whose files this process trusts: itself and root. Empty on Windows. */
export function trustedUsers(): number[] {
  const own = process.getuid?.()
  return own === undefined ? [] : [...new Set([own, root])]
}

/**
 * Checks one file or directory. `owners` lists its allowed owners. With `privateGroup`, its group may write if it is
 * the owner's private group, which has the same number as the user (many systems create one for each user, with umask
 * 002).
 */
export function loosenessOf(
  path: string,
  stats: Pick<Stats, 'uid' | 'gid' | 'mode'>,
  { owners, privateGroup = false }: { owners: readonly number[]; privateGroup?: boolean }
): Looseness | null {
  if (owners.length === 0) return null
  const { uid, gid, mode } = stats
  if (!owners.includes(uid))
    return { path, why: `"${path}" belongs to the user ${uid}`, cure: `Run "chown ${owners[0]} ${path}"` }
  const writers = privateGroup && gid === uid ? writableByOthers : writableByOthers | writableByGroup
  if ((mode & writers) === 0) return null
  return {
    path,
    why: `other users may write to "${path}" (mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`,
    cure: `Run "chmod go-w ${path}"`
  }
}

/**
 * Checks the directories above a path (absolute, without links). A user with write permission in one of them can
 * replace its entries, unless it is sticky like /tmp.
 */
export async function looseParentOf(path: string): Promise<Looseness | null> {
  if (process.getuid === undefined) return null
  for (let child = path, parent = dirname(path); parent !== child; child = parent, parent = dirname(parent)) {
    const stats = await stat(parent)
    const isSticky = (stats.mode & sticky) !== 0
    const loose = isSticky ? null : loosenessOf(parent, stats, { owners: [stats.uid], privateGroup: true })
    if (loose !== null) return loose
  }
  return null
}
