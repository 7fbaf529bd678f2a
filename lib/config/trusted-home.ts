import { lstat, realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { loosenessOf, looseParentOf, trustedUsers, type Looseness } from '../base/files.js'
import { Refusal } from '../base/errors.js'

/** The parts of a data directory that svc trusts. Another user who could change one of them could become the admin. */
const believed = [
  'config.json',
  'svc.db',
  'svc.db.redo',
  'svc.sock',
  'variables.key',
  'keys',
  'keys/server.ed25519',
  'deployments',
  'tmp'
]

/**
 * Refuses (`unsafe_home`) a data directory that another user could change: the directory itself, its trusted parts, or
 * a directory above it. Root may work on a service user's directory if all of it belongs to that user or to root.
 */
export async function refuseLooseHome(directory: string): Promise<void> {
  const loose = await findLoose(await realpath(directory))
  if (loose === null) return
  const sentence = `The data directory "${directory}" cannot be trusted: ${loose.why}. ${loose.cure}, or choose another with SVC_HOME`
  throw new Refusal('unavailable', 'unsafe_home', sentence)
}

async function findLoose(directory: string): Promise<Looseness | null> {
  const trusted = trustedUsers()
  if (trusted.length === 0) return null
  const stats = await stat(directory)
  // Root may use another user's directory, with a warning (warningOfRoot).
  const owners = trusted[0] === 0 ? [stats.uid] : trusted
  const own = loosenessOf(directory, stats, { owners }) ?? (await looseParentOf(directory))
  if (own !== null) return own
  for (const name of believed) {
    const loose = await findLooseFile(join(directory, name), [...new Set([stats.uid, ...trusted])])
    if (loose !== null) return loose
  }
  return null
}

/** Checks a file; for a symbolic link, its target and the directories above the target. */
async function findLooseFile(path: string, owners: readonly number[]): Promise<Looseness | null> {
  const stats = await lstat(path).catch(() => null)
  if (stats === null) return null
  if (!stats.isSymbolicLink()) return loosenessOf(path, stats, { owners })
  const target = await realpath(path).catch(() => null)
  if (target === null) return null
  return loosenessOf(target, await stat(target), { owners }) ?? (await looseParentOf(target))
}
