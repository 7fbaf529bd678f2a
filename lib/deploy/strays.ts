/*
 * Files of deployments that a killed server left behind.
 *
 * A start removes those that are older than itself: newer ones are in use. It says in the log what it has removed.
 * A file without a record is removed only if a list of pending.ts names it. Others may be all that a lost database has
 * left: they stay, and storage/clean lists them.
 */
import { readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { countOf } from '../base/count.js'
import type { Reader } from '../store/database.js'
import { findDeployment } from '../store/tables/deployments.js'
import {
  deploymentFilePattern, findFiles, removeFile, sharedChangesPattern, snapshotPattern, temporaryFilePattern,
  type DeployFiles, type DeployHome, type FoundFile
} from './files.js'
import type { DeployNeeds } from './needs.js'
import { pendingPattern, settleEarlier } from './pending.js'

type StrayNeeds = Pick<DeployNeeds, 'home' | 'store' | 'log'> & { files: DeployFiles }

/** What a start looks at in `deployments/`; outputs and manifests stay or go with their archive. */
const lookedAtPattern = /^(dep_[a-z2-7]{16})\.(zip|manifest\.tmp)$/
/** Named in the log; of the others, the number. */
const maxNamed = 10

/** Removes what an earlier server left behind. What cannot be removed is logged, and keeps no server from starting. */
export async function removeStrays({ home, files, store, log }: StrayNeeds, startedMs: number): Promise<void> {
  const removed: string[] = []
  const attempt = async (what: string, remove: () => Promise<boolean>): Promise<void> => {
    const wasThere = await remove().catch(error => void log(`"${what}" of an earlier server could not be removed`, error))
    if (wasThere === true) removed.push(what)
  }
  const attemptFile = ({ path }: FoundFile): Promise<void> => attempt(path, () => removeFile(path))
  const old = async (directory: string, pattern: RegExp): Promise<FoundFile[]> => {
    const found: FoundFile[] = []
    for await (const file of findFiles(directory, pattern)) if (file.stats.mtimeMs < startedMs) found.push(file)
    return found
  }

  for (const { path } of await old(home.tmp, pendingPattern)) {
    await attempt(path, async () => {
      removed.push(...(await settleEarlier(path, { store, files })))
      return false
    })
  }
  const temporary = await old(home.tmp, temporaryFilePattern)
  const uploads = new Set(temporary.map(identityOf))
  for (const file of await old(home.deployments, lookedAtPattern)) {
    const [, id = '', ending] = file.match
    const row = findDeployment(store, id)
    // The upload is there under its other name, too: it never became a deployment.
    if (ending === 'zip' && row === undefined && uploads.has(identityOf(file))) await attempt(file.path, () => files.remove(id))
    else if (ending !== 'zip' || row?.hasArtifact === false) await attemptFile(file)
  }
  for (const file of temporary) await attemptFile(file)
  for (const file of await old(tmpdir(), sharedChangesPattern)) {
    // Others are of another data directory.
    if (findDeployment(store, file.match[1] ?? '') !== undefined) await attemptFile(file)
  }
  for (const name of (await readdir(home.tmp)).filter(name => snapshotPattern.test(name))) {
    // Second names that a backup gave; it ended with the process that wrote it.
    const path = join(home.tmp, name)
    await attempt(path, () => rm(path, { recursive: true }).then(() => true))
  }
  if (removed.length > 0) log(sentenceOf(removed))
}

function sentenceOf(removed: readonly string[]): string {
  const more = removed.length > maxNamed ? `, and ${removed.length - maxNamed} more` : ''
  return `Removed ${countOf(removed.length, 'leftover')} of an earlier server: ${removed.slice(0, maxNamed).join(', ')}${more}`
}

/** The same for each name of one file. */
function identityOf({ stats }: FoundFile): string {
  return `${stats.dev}:${stats.ino}`
}

/** As long as a file may be in use although nobody touches it: an upload grows at least once a minute, or is given up. */
const staleMs = 60 * 60_000

interface InUse {
  nowMs: number
  /** Whether this process works on a deployment. */
  isLive(deployId: string): boolean
}

/** Files in `tmp/` that nobody has touched for an hour; a list of changes stays while its deployment `isLive`. */
export async function findStaleFiles({ tmp }: Pick<DeployHome, 'tmp'>, { nowMs, isLive }: InUse): Promise<FoundFile[]> {
  const stale: FoundFile[] = []
  for await (const file of findFiles(tmp, temporaryFilePattern)) {
    if (nowMs - file.stats.mtimeMs > staleMs && !isLive(file.match[0].replace(/\.\w+$/, ''))) stale.push(file)
  }
  return stale
}

/** Files in `deployments/` that no record names, or whose record says that they have gone; untouched for an hour. */
export async function findUnrecordedFiles(
  { deployments }: Pick<DeployHome, 'deployments'>, db: Reader, { nowMs, isLive }: InUse
): Promise<FoundFile[]> {
  const found: FoundFile[] = []
  for await (const file of findFiles(deployments, deploymentFilePattern)) {
    const [, id = '', ending] = file.match
    if (nowMs - file.stats.mtimeMs <= staleMs || isLive(id)) continue
    const row = findDeployment(db, id)
    if (row === undefined || ending === 'manifest.tmp' || (ending === 'zip' && !row.hasArtifact)) found.push(file)
  }
  return found
}
