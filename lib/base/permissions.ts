import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/*
 * Who may change a file, judged as sshd judges with StrictModes: nobody but its owner, and that is a user we trust.
 * Windows has neither owners nor modes of this kind: nothing is loose there.
 */

/** What lets another user change a file. */
export interface Looseness {
  path: string
  /** A part of a sentence: `"/srv/svc" belongs to the user 1000`. */
  why: string
  /** A sentence. */
  cure: string
}

const writableByGroup = 0o020
const writableByOthers = 0o002
const sticky = 0o1000
const root = 0

/** The users whose files this process trusts: itself and root. Empty on Windows. */
export function trustedUsers(): number[] {
  const own = process.getuid?.()
  return own === undefined ? [] : [...new Set([own, root])]
}

/**
 * Judges one file or directory. `owners`: who may own it. With `privateGroup` its group may write if the group is the
 * owner's own (as many systems make one for each user, with umask 002), by having the same number.
 */
export function loosenessOf(
  path: string, stats: Pick<Stats, 'uid' | 'gid' | 'mode'>, { owners, privateGroup = false }: { owners: readonly number[]; privateGroup?: boolean }
): Looseness | null {
  if (owners.length === 0) return null
  const { uid, gid, mode } = stats
  if (!owners.includes(uid)) return { path, why: `"${path}" belongs to the user ${uid}`, cure: `Run "chown ${owners[0]} ${path}"` }
  const writers = privateGroup && gid === uid ? writableByOthers : writableByOthers | writableByGroup
  if ((mode & writers) === 0) return null
  return { path, why: `other users may write to "${path}" (mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`, cure: `Run "chmod go-w ${path}"` }
}

/**
 * Judges the directories above a path (absolute, without links): who may write to one of them may replace what is in it,
 * unless it is sticky, as /tmp is.
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
