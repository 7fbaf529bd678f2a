/*
 * Files of deployments that a killed server left behind.
 *
 * A start removes those that it has found before it did anything, and logs what it removed; newer ones are in use. Times
 * do not tell them apart: somebody may have set the clock back. It removes a file without a record only if a list of
 * intake.ts names it. Other such files may be all that is left of a lost database: they stay, and storage/clean lists
 * them.
 */

import { existsSync } from 'node:fs'
import { readdir, rename, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { countOf } from '../base/text.js'
import { hasEnded } from '../base/runtime.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { Reader } from '../core/store/database.js'
import { findDeployment } from '../core/store/tables/deployments.js'
import { findProject } from '../core/store/tables/projects.js'
import { fingerprintOf, namedById } from '../base/digests.js'
import {
  type DeployFiles,
  type DeployHome,
  deploymentFilePattern,
  findFiles,
  type FoundFile,
  removeFile,
  sharedChangesPattern,
  snapshotPattern,
  temporaryFilePattern
} from './files.js'
import type { DeployNeeds } from './needs.js'
import { isFinal } from './record.js'
import { pendingPattern, settleEarlier } from './intake.js'
import { treePattern, treesOf } from './trees.js'

/** The directory of a pipe, which a kill in the moment of its making leaves. */
const pipePattern = /^svc-pipe-(?:([0-9a-f]{12}-\d+-\d*)-)?\w{6}$/

type StrayNeeds = Pick<DeployNeeds, 'clock' | 'home' | 'store' | 'log'> & { files: DeployFiles }

/** Files in `deployments/` that a start checks. Outputs and manifests stay or are removed with their archive. */
const checkedPattern = namedById(
  'dep_',
  String.raw`zip|index|(?:zip|index|pack)\.tmp|before\.zip|manifest\.tmp|scripted\.zip|(?:scripted|marks)(?:\.zip)?\.tmp|marks\.zip`
)
/** Those that stay as long as the record says that there is an archive, or there is no record. */
const keptWithRecord: ReadonlySet<string> = new Set(['zip', 'index', 'scripted.zip'])
/** Number of files named in the log. The others are only counted. */
const maxNamed = 10

/** A file may be in use for this long without a change: an upload grows at least once a minute, or it is given up. */
const staleMs = 60 * 60_000

/** The files that a start found before it did anything: paths with the numbers of their inodes. */
export type Earlier = ReadonlySet<string>

/** Lists the files that `removeStrays` may remove. */
export async function listEarlier(home: DeployHome): Promise<Earlier> {
  const found = new Set<string>()
  const patterns = { [home.tmp]: /./, [home.deployments]: checkedPattern, [treesOf(home)]: treePattern }
  for (const [directory, pattern] of [...Object.entries(patterns), [tmpdir(), sharedChangesPattern] as const])
    for await (const file of findFiles(directory, pattern)) found.add(nameOf(file))
  return found
}

const nameOf = ({ path, stats }: FoundFile): string => `${stats.ino} ${path}`

/** Removes what an earlier server left behind. A file that cannot be removed is logged and does not stop the start. */
export async function removeStrays({ clock, home, files, store, log }: StrayNeeds, earlier: Earlier): Promise<void> {
  const removed: string[] = []
  const attempt = async (what: string, remove: () => Promise<boolean>): Promise<void> => {
    const wasThere = await remove().catch(
      error => void log(`Cannot remove "${what}", which an earlier server left behind`, error)
    )
    if (wasThere === true) removed.push(what)
  }
  const attemptFile = ({ path }: FoundFile): Promise<void> => attempt(path, () => removeFile(path))
  const old = async (directory: string, pattern: RegExp): Promise<FoundFile[]> => {
    const found: FoundFile[] = []
    for await (const file of findFiles(directory, pattern)) if (earlier.has(nameOf(file))) found.push(file)
    return found
  }

  for (const { path } of await old(home.tmp, pendingPattern)) {
    await attempt(path, async () => {
      removed.push(...(await settleEarlier(path, { store, files })))
      return false
    })
  }
  for (const file of await old(home.tmp, asidePattern))
    await attempt(file.path, () => settleAside(file, { home, db: store }))
  const temporary = await old(home.tmp, temporaryFilePattern)
  const uploads = new Set(temporary.map(identityOf))
  for (const file of await old(home.deployments, checkedPattern)) {
    const [, id = '', ending] = file.match
    const row = findDeployment(store, id)
    // The archive is still linked as an upload, so it never became a deployment.
    if (ending === 'zip' && row === undefined && uploads.has(identityOf(file)))
      await attempt(file.path, () => files.remove(id))
    else if ((ending === 'zip' || ending === 'index') && row?.hasArtifact === false)
      await attempt(file.path, async () => (await files.packs.remove(id)).wasThere)
    else if (ending === 'before.zip') {
      // An empty file was created for a helper process that had nothing to keep.
      if (file.stats.size === 0 || (row !== undefined && areImagesUnused(row, files))) await attemptFile(file)
    } else if (!keptWithRecord.has(ending ?? '') || row?.hasArtifact === false) await attemptFile(file)
  }
  for (const file of temporary) await attemptFile(file)
  removed.push(...(await files.packs.removeLeft()))
  for (const file of await old(treesOf(home), treePattern)) {
    const [, projectId = '', ending] = file.match
    if (ending === 'tree.tmp' || findProject(store, projectId) === undefined) await attemptFile(file)
  }
  for (const file of await old(tmpdir(), sharedChangesPattern)) {
    const [, mark = '', deployId = ''] = file.match
    // A list without the mark of a process, of an unknown deployment, may belong to another data directory. With one, a
    // backup of before the deployment may have been restored.
    if (hasEnded(mark) ?? findDeployment(store, deployId) !== undefined) await attemptFile(file)
  }
  for (const name of await readdir(tmpdir()).catch(() => [])) {
    const match = pipePattern.exec(name)
    if (match === null) continue
    const path = join(tmpdir(), name)
    // Another server may be making its own at this moment. Without it, its script gets a socket (core/proc/run.ts).
    const isStale = (): Promise<boolean> =>
      stat(path).then(
        ({ mtimeMs }) => clock.now() - mtimeMs > staleMs,
        () => false
      )
    if (hasEnded(match[1] ?? '') ?? (await isStale())) await rm(path, { recursive: true, force: true }).catch(() => {})
  }
  for (const name of (await readdir(home.tmp)).filter(name => snapshotPattern.test(name))) {
    // Links made by a backup, which ended together with its process.
    const path = join(home.tmp, name)
    await attempt(path, () => rm(path, { recursive: true }).then(() => true))
  }
  if (removed.length > 0) log(sentenceOf(removed))
}

/** Whether the files of a finished deployment are not in its target, and cannot turn out to be there. */
function areImagesUnused(row: DeploymentRow, files: DeployFiles): boolean {
  return row.placed === null && isFinal(row.status) && !existsSync(files.journal(row.id))
}

function sentenceOf(removed: readonly string[]): string {
  const more = removed.length > maxNamed ? `, and ${removed.length - maxNamed} more` : ''
  const names = removed.slice(0, maxNamed).join(', ')
  return `Removed ${countOf(removed.length, 'file')} that an earlier server left behind: ${names}${more}`
}

/** Returns the same text for all names of one file. */
function identityOf({ stats }: FoundFile): string {
  return `${stats.dev}:${stats.ino}`
}

/** Archives: whole ones, and those that share contents. */
const archiveEndings: ReadonlySet<string> = new Set(['zip', 'index'])

interface InUse {
  nowMs: number
  /** Whether this process is working on a deployment. */
  isLive(deployId: string): boolean
}

/** Returns the files in `tmp/` unchanged for an hour. A list of changes stays while its deployment `isLive`. */
export async function findStaleFiles({ tmp }: Pick<DeployHome, 'tmp'>, { nowMs, isLive }: InUse): Promise<FoundFile[]> {
  const stale: FoundFile[] = []
  for await (const file of findFiles(tmp, temporaryFilePattern)) {
    if (nowMs - file.stats.mtimeMs > staleMs && !isLive(file.match[0].replace(/\.\w+$/, ''))) stale.push(file)
  }
  return stale
}

/**
 * Returns the files in `deployments/` unchanged for an hour that have no record, or whose record says they are gone.
 */
export async function findUnrecordedFiles(
  { deployments }: Pick<DeployHome, 'deployments'>,
  db: Reader,
  { nowMs, isLive, isNeeded }: InUse & Pick<DeployFiles['packs'], 'isNeeded'>
): Promise<FoundFile[]> {
  const found: FoundFile[] = []
  for await (const file of findFiles(deployments, deploymentFilePattern)) {
    const [, id = '', ending] = file.match
    if (nowMs - file.stats.mtimeMs <= staleMs || isLive(id)) continue
    const row = findDeployment(db, id)
    // A start removes packs that nothing needs.
    if (ending === 'pack' || (ending === 'zip' && row?.hasArtifact !== true && (await isNeeded(id)))) continue
    if (row === undefined || ending?.endsWith('.tmp') || (archiveEndings.has(ending ?? '') && !row.hasArtifact))
      found.push(file)
  }
  return found
}

/*
 * Files that an interrupted import set aside. An import replaces files of deployments. If svc is killed before the
 * import has restored or removed the old ones, they remain:
 *
 *   tmp/<random>.<fingerprint>.<id>.<ending>.before     the old file
 *   tmp/<random>.<fingerprint>.<id>.<ending>.absent     there was no old file
 *
 * The fingerprint is that of the deployment's record before the import. If the record still has it, the import was not
 * committed, and the old state is restored. If the record differs, the import is complete. If there is no record any
 * more, the database was lost, and nothing is changed.
 */

/** Pattern of the names: fingerprint, file, deployment, and whether there was an old file. */
const asidePattern =
  /^[\w-]{43}\.([0-9a-f]{16})\.((dep_\w+)\.(?:zip|index|log|manifest|scripted|sbom\.json))\.(before|absent)$/

/** Restores a file, or removes what was set aside. Returns whether it did either. */
async function settleAside(
  { path, match }: FoundFile,
  { home, db }: { home: DeployHome; db: Reader }
): Promise<boolean> {
  const [, fingerprint, name = '', id = '', kind] = match
  const row = findDeployment(db, id)
  if (fingerprintOf(row) !== fingerprint) return row === undefined ? false : removeFile(path)
  const place = join(home.deployments, name)
  if (kind === 'before') await rename(path, place)
  // Without a record, the lists of intake.ts decide: they detect a lost database.
  else if (row !== undefined) await removeFile(place)
  // Needed if both are names of the same file, because rename(2) then does nothing.
  await removeFile(path)
  return true
}
