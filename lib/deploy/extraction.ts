/*
 * One extraction, from the archive to the target, in the order that makes it all or nothing: names and sizes, then
 * what the target has, then everything into staging and compared with its CRC, then the manifest, and only then the
 * renames. Synchronous but for large entries; it runs in a worker thread (extract-worker.ts).
 */
import { join } from 'node:path'
import { createEntryReader, isSmall } from '../archive/entry-data.js'
import { checkLinks, maxLinkBytes } from '../archive/links.js'
import { checkNames, refuse } from '../archive/names.js'
import { openArchive, type Archive, type ArchiveLimits } from '../archive/read.js'
import { commit } from '../target/commit.js'
import { discardFiles } from '../target/discard.js'
import { removeTree, type Disk } from '../target/disk.js'
import { holdTarget, type HeldDirectory } from '../target/guard.js'
import { writeManifest, type Manifest } from '../target/manifest.js'
import { planTarget, type Item } from '../target/plan.js'
import { createRecords } from '../target/record.js'
import { createStage, makeStaging, sealFolders, stagingName, type Stage } from '../target/stage.js'
import { beginJournal, recover, type Journal } from '../target/undo.js'
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
    disk.mkdirSync(job.target, { recursive: true })
    const root = holdTarget(disk, job.target)
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
  root: HeldDirectory, archive: Archive, job: ExtractionJob, disk: Disk, check: () => void
): Promise<Extracted> {
  const items = archive.entries
  const staging = `${root.path}/${stagingName(job.deployId)}`
  checkNames(items, { windows: process.platform === 'win32', folds: () => findFolding(disk, `${staging}-fold`) })
  const links = readLinks(archive)
  checkLinks(links, path => linkIn(disk, root, path), check)
  const plan = planTarget(disk, root, items)
  const records = createRecords(items.length)
  plan.existing.forEach((existing, index) => records.setExisting(index, existing))

  check()
  const journal = beginJournal(disk, job.deployments, job.deployId, root.real)
  const manifestPath = join(job.deployments, `${job.deployId}.manifest`)
  try {
    makeStaging(disk, staging, plan)
    const stage = createStage({ disk, target: root.path, staging, umask: job.umask, items, records })
    stageLinks(items, links, stage)
    await stageEntries(archive, stage, check)
    sealFolders(disk, staging, plan)
    const manifest = writeManifest(disk, manifestPath, items, records)
    commit({ disk, root, staging, items, plan, records, journal, check })
    await finish(disk, staging, journal)
    return { ...manifest, bytes: archive.totalBytes, manifestPath }
  } catch (error) {
    putBack(disk, journal, manifestPath, error)
    throw error
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
    if (entry.size > maxLinkBytes || !isSmall(entry)) throw refuse('link_too_long', entry.path, 'it is a symbolic link to an endless name')
    links.set(entry.path, reader.readWhole(entry).toString('utf8'))
  }
  return links
}

function linkIn(disk: Disk, root: HeldDirectory, path: string): string | null {
  const place = `${root.path}/${path}`
  try {
    return disk.lstatSync(place, { throwIfNoEntry: false })?.isSymbolicLink() ? disk.readlinkSync(place) : null
  } catch {
    return null
  }
}

/** Everything is in place and the journal says so: what is left is tidying, which recovery would do as well. */
async function finish(disk: Disk, staging: string, journal: Journal): Promise<void> {
  try {
    await discardFiles(disk, `${staging}/aside`)
    removeTree(disk, staging)
    disk.unlinkSync(journal.path)
  } catch {
    // The next start tries again.
  }
}

function putBack(disk: Disk, journal: Journal, manifestPath: string, cause: unknown): void {
  try {
    if (recover(disk, journal.path) === 'complete') return
    removeTree(disk, manifestPath)
    removeTree(disk, `${manifestPath}.tmp`)
  } catch (error) {
    throw new Error(`The target could not be put back; the next start tries again (${String(error)})`, { cause })
  }
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
