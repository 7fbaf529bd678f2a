/*
 * One extraction, from the archive to the target, in the order that makes it all or nothing: names and sizes, then
 * what the target has, then everything into staging and compared with its CRC, then the manifest, then all of it onto
 * the disk, and only then the renames. Synchronous but for large entries and syncs; it runs in a worker thread (extract-worker.ts).
 */
import { createEntryReader, isSmall } from '../archive/entry-data.js'
import { checkLinks, maxLinkBytes } from '../archive/links.js'
import { checkNames, refuse } from '../archive/names.js'
import type { Archive, ArchiveLimits } from '../archive/read.js'
import { Refusal } from '../base/refusal.js'
import { commit } from '../target/commit.js'
import { discardFiles } from '../target/discard.js'
import { syncDirectory, type Disk } from '../target/disk.js'
import { createTargetSync, type SyncFileSystem } from '../target/durable.js'
import { holdFolders, type Folders } from '../target/folders.js'
import { canHoldDirectories, type HeldDirectory } from '../target/held.js'
import { writeManifest, type Manifest, type ManifestFile } from '../target/manifest.js'
import { planTarget, type Item } from '../target/plan.js'
import { holdTarget, type HeldTarget } from '../target/reach.js'
import { createRecords } from '../target/record.js'
import { createStage, sealFolders, type Stage } from '../target/stage.js'
import { furnishStaging, makeStaging, removeStaging, stagingName, type Staging } from '../target/staging.js'
import type { JournalFile } from '../target/journal-file.js'
import { beginJournal, recover, type Recovery, type StillHeld } from '../target/undo.js'
import type { BeginSecond } from './second-stage.js'
import { stageEntries } from './stage-entries.js'
import { runSync } from './sync-program.js'

export interface ExtractionJob {
  target: string
  /** Where the target must lead; undefined: wherever it does. */
  real?: string | undefined
  deployId: string
  limits: ArchiveLimits
  umask: number
  /** The umask is the project's own: it also takes bits from the modes that the archive gives, and the process may have another. */
  masksModes: boolean
  /** What is put in place is on the disk before the extraction is over (setting `durable_targets`); absent: true. */
  isDurable?: boolean
}

export interface Extracted extends Manifest {
  /** The sizes of its files together. */
  bytes: number
}

/** What an extraction has of the data directory: by names in a thread, as open files in a helper process. */
export interface ExtractionFiles {
  openArchive(limits: ArchiveLimits): Promise<Archive>
  journal: JournalFile
  manifest: ManifestFile
  /** Not in a helper process, which lives for one extraction. */
  beginSecond?: BeginSecond
}

/**
 * Runs an extraction; throws after the target has been put back. `check` is called now and then, and throws when it is
 * to be given up.
 */
export async function runExtraction(
  job: ExtractionJob, files: ExtractionFiles, disk: Disk, check: () => void, syncFileSystem: SyncFileSystem = runSync
): Promise<Extracted> {
  const archive = await files.openArchive(job.limits)
  try {
    const root = holdTarget(disk, job.target, { make: true })
    try {
      if (canHoldDirectories && job.real !== undefined && root.real !== job.real) throw leadsElsewhere(job.target, root.real)
      return await extractInto(root, archive, { job, files, disk, check, syncFileSystem })
    } finally {
      root.close()
    }
  } finally {
    archive.close()
  }
}

function leadsElsewhere(target: string, real: string): Refusal {
  const sentence = `Nothing was changed: "${target}" has just come to lead to "${real}"; deploy again`
  return new Refusal('conflict', 'target_moved', sentence)
}

interface ExtractionNeeds {
  job: ExtractionJob
  files: ExtractionFiles
  disk: Disk
  check(): void
  syncFileSystem: SyncFileSystem
}

async function extractInto(
  root: HeldTarget, archive: Archive, { job, files, disk, check, syncFileSystem }: ExtractionNeeds
): Promise<Extracted> {
  const items = archive.entries
  const umask = job.masksModes ? maskModes(items, job.umask) : job.umask
  const links = readLinks(archive)
  checkArchive(root, archive, links, { job, disk, check })
  const plan = planTarget(disk, root, items)
  const records = createRecords(items.length)
  plan.existing.forEach((existing, index) => records.setExisting(index, existing))

  check()
  const journal = beginJournal(files.journal, root.real)
  const folders = holdFolders(disk, root)
  let staging: Staging | null = null
  let extracted: Extracted | null = null
  try {
    staging = makeStaging(disk, root, job.deployId)
    journal.staged(staging.mark)
    furnishStaging(disk, staging, plan)
    const stage = createStage({ disk, folders, staging: staging.path, umask, items, records })
    stageLinks(items, links, stage)
    const second = files.beginSecond?.({ root: { path: root.path, fd: root.fd }, staging: staging.path, umask, records: records.memory }, items.length)
    await stageEntries(archive, stage, check, second ?? null)
    sealFolders(disk, staging.path, plan, job.masksModes ? 0o777 & ~job.umask : null)
    extracted = { ...writeManifest(disk, files.manifest, items, records), bytes: archive.totalBytes }
    const sync = createTargetSync({ disk, root, staging, isDurable: job.isDurable ?? true, syncFileSystem, check })
    await commit({ disk, root, staging: staging.path, items, plan, records, journal, sync, check })
    await tidy(disk, root, job.deployId, staging)
    return extracted
  } catch (error) {
    if (putBack(disk, { root, staging }, files, error) === 'complete' && extracted !== null) return extracted
    throw error
  } finally {
    folders.close()
    staging?.close()
  }
}

/** Gives every item the mode it is to have. Returns the umask with which a stage sets each of them. */
function maskModes(items: readonly Item[], umask: number): number {
  for (const item of items) item.mode = (item.mode ?? (item.kind === 'directory' ? 0o777 : 0o666)) & ~umask
  return 0o7777
}

/** Names and links, before anything is made but a directory to find out how names are compared. */
function checkArchive(
  root: HeldTarget, archive: Archive, links: ReadonlyMap<string, string>, { job, disk, check }: Pick<ExtractionNeeds, 'job' | 'disk' | 'check'>
): void {
  const probe = `${root.path}/${stagingName(job.deployId)}-fold`
  checkNames(archive.entries, { windows: process.platform === 'win32', folds: () => findFolding(disk, probe) })
  const folders = holdFolders(disk, root)
  try {
    checkLinks(links, path => linkIn(disk, folders, path), check)
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
    if (entry.size > maxLinkBytes || !isSmall(entry)) throw refuse('link_too_long', entry.path, 'it is a symbolic link to an endless name')
    links.set(entry.path, reader.readWhole(entry).toString('utf8'))
  }
  return links
}

function linkIn(disk: Disk, folders: Folders, path: string): string | null {
  try {
    const place = folders.place(path)
    return disk.lstatSync(place, { throwIfNoEntry: false })?.isSymbolicLink() ? disk.readlinkSync(place) : null
  } catch {
    return null
  }
}

/**
 * Everything is in place and the journal says so: what is left is tidying, which recovery would do as well. The journal
 * stays: who recorded that the extraction is complete removes it.
 */
async function tidy(disk: Disk, root: HeldDirectory, deployId: string, staging: Staging): Promise<void> {
  try {
    await discardFiles(disk, `${staging.path}/aside`)
    removeStaging(disk, root, deployId, staging)
    // The journal may be on another disk: without it, nobody would look for what came back of the staging directory.
    syncDirectory(disk, root.path)
  } catch {
    // The next start tries again.
  }
}

function putBack(disk: Disk, held: StillHeld, files: ExtractionFiles, cause: unknown): Recovery {
  try {
    return recover(disk, files.journal, held, recovery => {
      if (recovery !== 'complete') files.manifest.remove()
    })
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
