/*
 * One extraction, from the archive to the target, in the order that makes it all or nothing: check names and sizes,
 * look up the target, write everything into staging and compare it with its CRC, write the manifest, sync everything to
 * disk, and only then rename. Synchronous except for large entries and syncs; it runs in a worker thread
 * (extract-worker.ts), or in pieces if it is small (executors.ts).
 */

import { createEntryReader, isSmall } from '../../archive/entry-data.js'
import { checkLinks, placesIn, checkNames, maxLinkBytes, refuse } from '../../archive/names.js'
import { readIndex } from '../../archive/pack-index.js'
import { openKept, openKeptFiles } from '../../archive/pack-set.js'
import { type Archive, type ArchiveLimits, openArchive } from '../../archive/read.js'
import { isDiskFull, Refusal, sentenceOf, spaceCure } from '../../../base/errors.js'
import { commit } from '../commit.js'
import { discardFiles, type Disk, sameTimeMs, syncDirectoryAsync } from '../disk.js'
import { createTargetSync, type SyncFileSystem } from '../durable.js'
import { checkExactly, exactTimeMs, exactUmask, setExactly } from '../removal.js'
import { type Expected, refuseOutdated } from '../expected.js'
import {
  canHoldDirectories,
  type Folders,
  type HeldDirectory,
  type HeldTarget,
  holdFolders,
  holdTarget,
  identityOf
} from '../held.js'
import { beforeAt, type BeforeFile, beforePathOf, openedBefore } from '../before-images.js'
import { type Manifest, manifestAt, type ManifestFile, openedManifest } from '../manifest.js'
import { canonicalOrder, refuseOtherTree, treeOfItems, writeManifest } from '../manifest-writer.js'
import type { Ownership } from '../ownership.js'
import { type Edits, reckon } from '../reckon.js'
import { groupUnder, type ModePolicy, type ModeRules, modeUnder, refuseReserved } from '../guard.js'
import { createRecords, type Folder, type Item, planTarget, type Records } from '../plan.js'
import {
  checkGroups,
  createStage,
  findStaging,
  type FoundStaging,
  furnishStaging,
  makeStaging,
  removeStaging,
  sealFolders,
  type Stage,
  type Staging,
  stagingName
} from '../staging.js'
import { beginJournal, journalAt, type JournalFile, openedJournal } from '../journal.js'
import { recover, type Recovery, type StillHeld } from '../undo.js'
import { changeTimes, takeUntouched } from '../untouched.js'
import { OpenFile } from '../../../base/files.js'
import { firstDescriptor } from '../../proc/environment.js'
import { type BeginSecond, type Pause, stageEntries } from './second-stage.js'

/** The parameters of an extraction, as plain data. */
export interface ExtractionJob {
  target: string
  /** The real path that the target must have; undefined: any. */
  real?: string | undefined
  deployId: string
  limits: ArchiveLimits
  umask: number
  /**
   * Whether the umask is the project's own. It then also removes bits from the modes in the archive. The process may
   * have another umask.
   */
  masksModes: boolean
  /** What the policy of the project says about permissions; absent: nothing. */
  modes?: ModePolicy | undefined
  /** The plan that the extraction is held to; undefined: none. */
  expected?: Expected | undefined
  /** The tree that the archive must have; undefined: any. */
  treeSha256?: string | undefined
  /** The tree that the archive had before, if it need not have one: it saves reading what proves to be in place. */
  likelyTree?: string | undefined
  /** What svc owns in the target; default: nothing is known. */
  ownership?: Ownership | undefined
  /** Whether the result is synced to disk before the extraction finishes (setting `durable_targets`); default: true. */
  isDurable?: boolean
  /** Paths that the archive must not touch (core/install/guard.ts); default: none. */
  reserved?: readonly string[] | undefined
  /** Whether the deployment may still be put back after everything is in place; default: false. */
  staysOpen?: boolean
  /** Whether the caller removes what was replaced, if that is much (`Extracted.left`); default: false. */
  mayLeave?: boolean
}

/** The result of an extraction. */
export interface Extracted extends Manifest {
  /** Total size of its files in bytes. */
  bytes: number
  /** The tree of the archive (base/shared/tree-text.ts); null if the extraction was interrupted and then completed. */
  treeSha256: string | null
  /** The edited files that were replaced or removed; null if the extraction was interrupted and then completed. */
  replaced: Edits | null
  /** The edited files that were left as they are; null like `replaced`. */
  kept: Edits | null
  /** The deployments whose archives contain what was replaced or removed; also `before` and `none`. */
  beforeFrom: string[]
  /** Size of the before-images in bytes. */
  beforeBytes: number
  /** The times of the last changes of its files, in the order of the manifest (`changeTimes`); absent: none is known. */
  ctimes?: Float64Array
  /** The staging directory with what was replaced, which is still to be removed (`discardLeft`); absent: nothing is. */
  left?: LeftStaging
}

/** A staging directory that is no longer needed. */
export interface LeftStaging {
  /** The real path of the target. */
  target: string
  deployId: string
  mark: string
  /** The device and the inode of the staging directory. */
  place: string
}

/** The files of an extraction in the data directory: by path in a thread, as open files in a helper process. */
export interface ExtractionFiles {
  openArchive(limits: ArchiveLimits): Promise<Archive>
  journal: JournalFile
  manifest: ManifestFile
  before: BeforeFile
  /** Absent in a helper process, which runs for one extraction only. */
  beginSecond?: BeginSecond
}

/** The disk and the callbacks of an extraction. */
export interface ExtractionTools {
  disk: Disk
  /** Called now and then. Throws if the extraction must be abandoned. */
  check?(): void
  /** Called before each file; a promise means that other work comes first. */
  pause?: Pause | undefined
  /** Whether the result says when inodes were last changed. A helper process is not believed. Default: false. */
  tellsTimes?: boolean
  syncFileSystem?: SyncFileSystem | undefined
}

/** Runs an extraction. If it fails, it puts the target back before it throws. */
export async function runExtraction(
  job: ExtractionJob,
  files: ExtractionFiles,
  { disk, check = () => {}, pause, tellsTimes = false, syncFileSystem = syncByProgram }: ExtractionTools
): Promise<Extracted> {
  const archive = await files.openArchive(job.limits)
  try {
    const root = holdTarget(disk, job.target, { make: true })
    try {
      if (canHoldDirectories && job.real !== undefined && root.real !== job.real)
        throw leadsElsewhere(job.target, root.real)
      return await extractInto(root, archive, { job, files, disk, check, pause, tellsTimes, syncFileSystem })
    } finally {
      root.close()
    }
  } finally {
    archive.close()
  }
}

/** Loads the module only if many files are synced: it loads all that runs programs. */
const syncByProgram: SyncFileSystem = async (directory, signal) => {
  const { runSync } = await import('../sync-program.js')
  return runSync(directory, signal)
}

function leadsElsewhere(target: string, real: string): Refusal {
  const sentence = `Nothing was changed: "${target}" now leads to "${real}". Deploy again`
  return new Refusal('conflict', 'target_moved', sentence)
}

interface ExtractionNeeds {
  job: ExtractionJob
  files: ExtractionFiles
  disk: Disk
  check(): void
  pause: Pause | undefined
  tellsTimes: boolean
  syncFileSystem: SyncFileSystem
}

async function extractInto(
  root: HeldTarget,
  archive: Archive,
  { job, files, disk, check, pause, tellsTimes, syncFileSystem }: ExtractionNeeds
): Promise<Extracted> {
  const items = archive.entries
  const archiveModes = items.map(({ mode }) => mode)
  const exact = job.ownership?.exact ?? null
  const digests = exact === null ? null : setExactly(items, exact)
  const umask = exact !== null ? exactUmask : giveModes(items, job)
  const toleranceMs = exact === null ? sameTimeMs : exactTimeMs
  const links = readLinks(archive)
  checkArchive(archive, links, { root, job, disk, check })
  const plan = planTarget(disk, root, items)
  const records = createRecords(items.length)
  plan.existing.forEach((existing, index) => records.setExisting(index, existing))

  check()
  const journal = await beginJournal(files.journal, root.real)
  const folders = holdFolders(disk, root)
  let staging: Staging | null = null
  let extracted: Extracted | null = null
  try {
    staging = makeStaging(disk, root, job.deployId)
    journal.staged(staging.mark, { target: identityOf(disk, root), staging: identityOf(disk, staging) })
    const isPending = (index: number): boolean => records.outcome(index) === 'pending'
    const isStaged = (index: number): boolean => items[index]?.kind !== 'directory' && isPending(index)
    const furnish = { plan, isStaged, made: new Set<Folder>() }
    const untouched = await takeProven(job, { disk, folders, items, records, toleranceMs, check })
    furnishStaging(disk, staging, furnish)
    const stage = createStage({ disk, folders, staging: staging.path, umask, toleranceMs, items, records, check })
    stageLinks(items, links, stage)
    // It reads the zip itself.
    const beginSecond = archive.packs === undefined ? files.beginSecond : undefined
    const second = beginSecond?.(
      { root: { path: root.path, fd: root.fd }, staging: staging.path, umask, toleranceMs, records: records.memory },
      items.length
    )
    const order = canonicalOrder(items)
    const likelyTree = job.treeSha256 ?? job.likelyTree
    await stageEntries(archive, { stage, isPending, check, pause, second })
    const inTree = { items, order, records, archiveModes }
    const isLikely = untouched.length > 0 && treeOfItems(inTree) === likelyTree
    if (untouched.length > 0 && !isLikely) {
      untouched.forEach(records.reopen)
      furnishStaging(disk, staging, furnish)
      await stageEntries(archive, { stage, isPending, check, pause })
    }
    if (digests !== null) checkExactly(digests, { items, records })
    else checkGroups(items, records)
    const ownership = job.ownership ?? nothingKnown
    const { reserved } = job
    const found = { disk, folders, items, order, records, plan, before: files.before, staging: staging.path, check }
    const reckoned = await reckon(ownership, { ...found, reserved })
    if (job.expected !== undefined) refuseOutdated(job.expected, { disk, folders, items, order, records, reckoned })
    const otherMode = modeUnder(rulesOf(job), 'directory', null)
    sealFolders(disk, plan, { staging: staging.path, otherMode, otherGroup: groupUnder(job, 'directory') })
    const staged = { disk, items, order, records, archiveModes, plan, reckoned }
    const { replaced, kept, removed, directories, beforeFrom, beforeBytes } = reckoned
    // The tree that was likely is the one that is stated.
    if (job.treeSha256 !== undefined && !isLikely) refuseOtherTree(job.treeSha256, inTree)
    const manifest = await writeManifest(files.manifest, staged)
    extracted = { ...manifest, bytes: archive.totalBytes, replaced, kept, beforeFrom, beforeBytes }
    const sync = createTargetSync({ disk, root, staging, isDurable: job.isDurable ?? true, syncFileSystem, check })
    const staysOpen = job.staysOpen ?? false
    const ending = { journal, sync, staysOpen, check }
    await commit({ disk, root, staging: staging.path, items, plan, records, removed, directories, ...ending })
    if (tellsTimes) extracted.ctimes = changeTimes({ disk, folders, items, order, records })
    const { deployId } = job
    if (job.mayLeave && !staysOpen && replacesMany(records, items.length, removed.length)) {
      extracted.left = { target: root.real, deployId, mark: staging.mark, place: identityOf(disk, staging) }
    } else if (!staysOpen) await tidy(disk, { root, staging, deployId }).catch(() => {}) // the next start tries again
    return extracted
  } catch (error) {
    const held = { root, staging }
    if (putBack({ disk, files, held }, error) === 'complete' && extracted !== null) return extracted
    throw error
  } finally {
    folders.close()
    staging?.close()
  }
}

/** Settles the files whose owned entries prove that they are as they were, if the tree of the archive is known. */
async function takeProven(
  { treeSha256, likelyTree, ownership }: ExtractionJob,
  needs: Omit<Parameters<typeof takeUntouched>[0], 'tree'>
): Promise<number[]> {
  const tree = ownership?.tree ?? null
  return (treeSha256 ?? likelyTree) === undefined || tree === null ? [] : await takeUntouched({ ...needs, tree })
}

/** Every file that is replaced is then copied into the before-images. */
const nothingKnown: Ownership = {
  tree: null,
  edited: 'ignore',
  removes: null,
  exact: null,
  archives: [],
  before: { maxBytes: 0, isRequired: false }
}

/** Gives the items the modes and the group that the project says. Returns the umask with which a stage sets all of them. */
function giveModes(items: readonly Item[], job: ExtractionJob): number {
  const rules = rulesOf(job)
  for (const item of items) {
    item.mode = modeUnder(rules, item.kind, item.mode)
    const gid = groupUnder(rules, item.kind)
    if (gid !== undefined) item.gid = gid
  }
  return job.masksModes || job.modes?.file != null ? 0o7777 : job.umask
}

function rulesOf({ umask, masksModes, modes }: ExtractionJob): ModeRules {
  return { umask: masksModes ? umask : null, modes }
}

/** Checks names and links. It creates nothing except a directory for a moment, to find out how names are compared. */
function checkArchive(
  archive: Archive,
  links: ReadonlyMap<string, string>,
  { root, job, disk, check }: Pick<ExtractionNeeds, 'job' | 'disk' | 'check'> & { root: HeldTarget }
): void {
  const probe = `${root.path}/${stagingName(job.deployId)}-fold`
  checkNames(archive.entries, { windows: process.platform === 'win32', folds: () => findFolding(disk, probe) })
  refuseReserved(archive.entries, job.reserved ?? [])
  // An exact change puts back links that were there; svc itself never follows one.
  if (job.ownership?.exact) return
  const folders = holdFolders(disk, root)
  let replacing: ReadonlySet<string> | undefined
  /** A link that a file or directory of the archive replaces leads nowhere then. An edited one may be kept. */
  function linkThen(path: string): string | null {
    const text = linkIn(disk, folders, path)
    if (text === null || job.ownership?.edited === 'keep') return text
    replacing ??= placesIn(archive.entries)
    return replacing.has(path) ? null : text
  }
  try {
    checkLinks(links, linkThen, check)
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
    if (entry.size > maxLinkBytes || !isSmall(entry))
      throw refuse('link_too_long', entry.path, 'it is a symbolic link whose target is too long')
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
 * Tidies up after everything is in place and the journal says so; recovery would do the same. The journal stays: the
 * caller removes it after it has recorded that the extraction is complete.
 */
async function tidy(
  disk: Disk,
  { root, staging, deployId }: { root: HeldDirectory; staging: Staging | FoundStaging; deployId: string }
): Promise<void> {
  await discardFiles(disk, `${staging.path}/aside`)
  removeStaging(disk, { root, staging, deployId })
  // The journal may be on another disk. Without the journal, nobody would look for a staging directory that a power
  // cut restores.
  await syncDirectoryAsync(disk, root.path)
}

/** Number of replaced files from which their removal takes longer than to have another job do it. */
const manyReplaced = 256

function replacesMany(records: Records, items: number, removed: number): boolean {
  let count = removed
  for (let index = 0; index < items && count < manyReplaced; index++)
    if (records.existing(index) !== 'none' && records.outcome(index) === 'staged') count++
  return count >= manyReplaced
}

/** Removes a staging directory that was left, with what was replaced. Does nothing if it is not there any more. */
export async function discardLeft(disk: Disk, { target, deployId, mark, place }: LeftStaging): Promise<void> {
  const root = holdTarget(disk, target)
  try {
    const user = process.geteuid?.() ?? 0
    const staging = findStaging(disk, root, { deployId, user, mark, place: { staging: place } })
    if (staging === null) return
    try {
      await tidy(disk, { root, staging, deployId })
    } finally {
      staging.close()
    }
  } finally {
    root.close()
  }
}

function putBack(
  { disk, files, held }: Pick<ExtractionNeeds, 'disk' | 'files'> & { held: StillHeld },
  cause: unknown
): Recovery {
  try {
    const settle = (recovery: Recovery): void => {
      if (recovery === 'complete') return
      files.manifest.remove()
      files.before.remove()
    }
    const recovery = recover(disk, files.journal, { held, settle })
    // It is reported as failed, so nothing is recorded about it.
    if (recovery === 'reverted') files.journal.remove()
    return recovery
  } catch (error) {
    const cure = isDiskFull(error) ? `${spaceCure(error)} in the target and in the data directory` : 'Mend that'
    const sentence = `Cannot put the target back: ${sentenceOf(error)}. ${cure}: the next deployment tries again, and so does the next start`
    throw new Refusal('unavailable', isDiskFull(error) ? 'no_space' : 'write_failed', sentence, { cause })
  }
}

/** Creates a directory for a moment, to test under which other names the file system finds it. */
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

/** Paths of the files of an extraction in the data directory. */
export interface ExtractionPaths {
  archivePath: string
  journalPath: string
  manifestPath: string
}

/** Returns the files of an extraction by their paths. */
export function filesAt(disk: Disk, { archivePath, journalPath, manifestPath }: ExtractionPaths): ExtractionFiles {
  return {
    openArchive: limits => openKept(archivePath, limits),
    journal: journalAt(disk, journalPath),
    manifest: manifestAt(disk, manifestPath),
    before: beforeAt(disk, beforePathOf(journalPath))
  }
}

/**
 * The descriptors of a helper process that extracts. A process that recovers has only the journal, as the first
 * descriptor.
 */
const descriptors = {
  archive: firstDescriptor,
  journal: firstDescriptor + 1,
  manifest: firstDescriptor + 2,
  before: firstDescriptor + 3,
  /** The packs of an archive that shares contents. */
  packs: firstDescriptor + 4
}

/** Opens the archive that a helper process gets. The first descriptor is its index if there are packs. */
async function openOpened(count: number, limits: ArchiveLimits): Promise<Archive> {
  const file = new OpenFile(descriptors.archive)
  if (count === 0) return openArchive(file, limits)
  const bytes = Buffer.alloc(file.size)
  file.readSync(bytes, 0)
  const packs = Array.from({ length: count }, (_, at) => new OpenFile(descriptors.packs + at))
  const name = 'index'
  return openKeptFiles({ kind: 'shared', name, index: readIndex(bytes, name), packs }, limits)
}

/** Returns the files of an extraction as a helper process gets them: already open. */
export function openedFiles(disk: Disk, deployId: string, packs: number): ExtractionFiles {
  return {
    openArchive: limits => openOpened(packs, limits),
    journal: openedJournal(disk, descriptors.journal, deployId),
    manifest: openedManifest(disk, descriptors.manifest),
    before: openedBefore(disk, descriptors.before)
  }
}
