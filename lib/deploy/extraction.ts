/*
 * One extraction, from the archive to the target, in the order that makes it all or nothing: names and sizes, then
 * what the target has, then everything into staging and compared with its CRC, then the manifest, and only then the
 * renames. Synchronous but for large entries; it runs in a worker thread (extract-worker.ts).
 */
import { join } from 'node:path'
import { createEntryReader } from '../archive/entry-data.js'
import { checkLinks, maxLinkBytes } from '../archive/links.js'
import { checkNames, refuse } from '../archive/names.js'
import { openArchive, type Archive, type ArchiveLimits } from '../archive/read.js'
import { commit } from '../target/commit.js'
import { discardFiles } from '../target/discard.js'
import type { Disk } from '../target/disk.js'
import { holdFolders, type Folders } from '../target/folders.js'
import type { HeldDirectory } from '../target/held.js'
import { writeManifest, type Manifest } from '../target/manifest.js'
import { planTarget, type Item } from '../target/plan.js'
import { holdTarget, type HeldTarget } from '../target/reach.js'
import { createRecords } from '../target/record.js'
import { createStage, sealFolders, type Stage } from '../target/stage.js'
import { furnishStaging, makeStaging, removeStaging, stagingName, type Staging } from '../target/staging.js'
import { beginJournal, recover, type Journal, type StillHeld } from '../target/undo.js'
import { stageEntries } from './stage-entries.js'

export interface ExtractionJob {
  archivePath: string
  target: string
  deployId: string
  /** Where `<id>.undo` and `<id>.manifest` go. */
  deployments: string
  limits: ArchiveLimits
  umask: number
}

export interface Extracted extends Manifest {
  /** The sizes of its files together. */
  bytes: number
  manifestPath: string
}

/**
 * Runs an extraction; throws after the target has been put back. `check` is called now and then, and throws when it is
 * to be given up.
 */
export async function runExtraction(job: ExtractionJob, disk: Disk, check: () => void): Promise<Extracted> {
  const archive = await openArchive(job.archivePath, job.limits)
  try {
    const root = holdTarget(disk, job.target, { make: true })
    try {
      return await extractInto(root, archive, job, disk, check)
    } finally {
      root.close()
    }
  } finally {
    archive.close()
  }
}

async function extractInto(
  root: HeldTarget, archive: Archive, job: ExtractionJob, disk: Disk, check: () => void
): Promise<Extracted> {
  const items = archive.entries
  const links = readLinks(archive)
  checkArchive(root, archive, links, job, disk)
  const plan = planTarget(disk, root, items)
  const records = createRecords(items.length)
  plan.existing.forEach((existing, index) => records.setExisting(index, existing))

  check()
  const journal = beginJournal(disk, job.deployments, job.deployId, root.real)
  const manifestPath = join(job.deployments, `${job.deployId}.manifest`)
  const folders = holdFolders(disk, root)
  let staging: Staging | null = null
  try {
    staging = makeStaging(disk, root, job.deployId)
    journal.staged(staging.mark)
    furnishStaging(disk, staging, plan)
    const stage = createStage({ disk, folders, staging: staging.path, umask: job.umask, items, records })
    stageLinks(items, links, stage)
    await stageEntries(archive, stage, check)
    sealFolders(disk, staging.path, plan)
    const manifest = writeManifest(disk, manifestPath, items, records)
    commit({ disk, root, staging: staging.path, items, plan, records, journal, check })
    await finish(disk, root, job.deployId, staging, journal)
    return { ...manifest, bytes: archive.totalBytes, manifestPath }
  } catch (error) {
    putBack(disk, { root, staging }, journal, manifestPath, error)
    throw error
  } finally {
    folders.close()
    staging?.close()
  }
}

/** Names and links, before anything is made but a directory to find out how names are compared. */
function checkArchive(
  root: HeldTarget, archive: Archive, links: ReadonlyMap<string, string>, { deployId }: ExtractionJob, disk: Disk
): void {
  const probe = `${root.path}/${stagingName(deployId)}-fold`
  checkNames(archive.entries, { windows: process.platform === 'win32', folds: () => findFolding(disk, probe) })
  const folders = holdFolders(disk, root)
  try {
    checkLinks(links, path => linkIn(disk, folders, path))
  } finally {
    folders.close()
  }
}

function stageLinks(items: readonly Item[], links: ReadonlyMap<string, string>, stage: Stage): void {
  if (links.size === 0) return
  items.forEach(({ kind, path }, index) => {
    if (kind === 'symlink') stage.link(index, links.get(path) as string)
  })
}

function readLinks(archive: Archive): Map<string, string> {
  const links = new Map<string, string>()
  const entries = archive.entries.filter(entry => entry.kind === 'symlink')
  if (entries.length === 0) return links
  const reader = createEntryReader(archive)
  for (const entry of entries) {
    if (entry.size > maxLinkBytes) throw refuse('link_too_long', entry.path, 'it is a symbolic link to an endless name')
    links.set(entry.path, reader.readWhole(entry).toString('utf8'))
  }
  return links
}

function linkIn(disk: Disk, folders: Folders, path: string): string | null {
  try {
    const place = folders.place(path)
    return disk.lstatSync(place).isSymbolicLink() ? disk.readlinkSync(place) : null
  } catch {
    return null
  }
}

/** Everything is in place and the journal says so: what is left is tidying, which recovery would do as well. */
async function finish(disk: Disk, root: HeldDirectory, deployId: string, staging: Staging, journal: Journal): Promise<void> {
  try {
    await discardFiles(disk, `${staging.path}/aside`)
    removeStaging(disk, root, deployId, staging)
    disk.unlinkSync(journal.path)
  } catch {
    // The next start tries again.
  }
}

function putBack(disk: Disk, held: StillHeld, journal: Journal, manifestPath: string, cause: unknown): void {
  try {
    if (recover(disk, journal.path, held) === 'complete') return
    removeFile(disk, manifestPath)
    removeFile(disk, `${manifestPath}.tmp`)
  } catch (error) {
    throw new Error(`The target could not be put back; the next start tries again (${String(error)})`, { cause })
  }
}

function removeFile(disk: Disk, path: string): void {
  if (disk.lstatSync(path, { throwIfNoEntry: false }) !== undefined) disk.unlinkSync(path)
}

/** Makes a directory for a moment, to see under which other names the file system finds it. */
function findFolding(disk: Disk, probe: string): { letterCase: boolean; normalForm: boolean } {
  const finds = (name: string): boolean => disk.lstatSync(name, { throwIfNoEntry: false }) !== undefined
  const composed = `${probe}-\u00e9`
  disk.mkdirSync(composed, 0o700)
  try {
    return { letterCase: finds(`${probe.slice(0, -4)}FOLD-\u00e9`), normalForm: finds(`${probe}-e\u0301`) }
  } finally {
    disk.rmdirSync(composed)
  }
}
