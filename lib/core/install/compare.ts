/*
 * Compares a tree with the target: what a deployment of these files would add, replace, and leave as it is. The disk is
 * compared, not the records about it. The rules are those of a deployment (staging.ts), directories are held as in
 * a deployment (held.ts), links are never followed, and nothing is written.
 *
 * It runs in a thread, or in a helper process with the rights of the project's user. A comparison that takes too long
 * ends early, and says that it is incomplete.
 */
import type { Stats } from 'node:fs'
import { readTree, type ReceivedTree } from '../archive/tree-wire.js'
import type { TimedEntry } from '../archive/tree.js'
import { parentOf } from '../../base/files.js'
import { hasCode, reasonOf, Refusal } from '../../base/errors.js'
import type { DriftedFile, PlanBytes, PlanCheck, PlanConflict, PlanCounts, PlanPaths } from '../../model/plan.js'
import type { OwnedEntry } from '../../model/manifest.js'
import { compareTreePaths, linkMode, type TreeEntry } from '../../base/shared/tree-text.js'
import { fitBeforeImages } from './before-images.js'
import {
  beforeLimits,
  decide,
  type Decision,
  findUnowned,
  type Ownership,
  type Removes,
  takesUnowned
} from './ownership.js'
import { createDigester, findEntry, type FoundEntry, isEdited } from './found-entry.js'
import { type Disk, sameTimeMs } from './disk.js'
import { buildExpected, type Expected } from './expected.js'
import { checkMissingTarget, checkTarget, createLists, createWrites, failed, type Lists, passed } from './findings.js'
import { clearWay, isAtOrBelow } from './kept-owner.js'
import { type HeldDirectory, holdFolders, holdTarget } from './held.js'
import { checkDeployPath, createReserved, groupUnder, type ModePolicy, modeUnder, type TargetRules } from './guard.js'
import { isDirectory, readOwnedBatches } from './owned-tree.js'
import { createAsked, isTooMuch, pruneTooMuch } from './removal.js'
import { findFolders, inTheWay, type Item } from './plan.js'
import { targetDrifted, targetEmptied, type Edits } from './reckon.js'

/** The parameters of a comparison, as plain data. */
export interface CompareJob {
  target: string
  rules: TargetRules
  /** The body of the request (core/archive/tree-wire.ts). */
  tree: Uint8Array
  /** The owned tree (owned-tree.ts): its contents, or its path. Null if svc does not know what it owns. */
  owned: Uint8Array | string | null
  /** As of `Ownership`. */
  isUnknown?: boolean
  /** Which owned files would be removed; default: none. */
  removes?: Removes | null
  /** What happens to files that somebody edited; default: `ignore`. */
  edited?: Ownership['edited']
  /** The deployments whose archives are kept, and the limit of what is kept otherwise; default: all fits. */
  keeps?: Pick<Ownership, 'archives' | 'before'>
  /** Paths that the archive must not touch (guard.ts); default: none. */
  reserved?: readonly string[]
  /** Whether every file is read, although the owned tree proves that it is untouched. */
  isFull?: boolean
  /** The project's own umask, which removes bits from the modes of the tree; null if the umask of svc applies. */
  umask: number | null
  /** What the policy of the project says about permissions; absent: nothing. */
  modes?: ModePolicy | undefined
  /** The groups that paths of the tree must have; null: that of the process. Default: what the policy says. */
  groups?: ReadonlyArray<readonly [path: string, gid: number | null]>
  /** Maximum number of paths listed of each kind. */
  listed: number
  /** Time limit in milliseconds. */
  limitMs: number
  nowMs: number
}

/** The result of a comparison, as plain data. */
export interface Compared {
  treeSha256: string
  counts: PlanCounts
  paths: PlanPaths
  bytes: PlanBytes
  checks: PlanCheck[]
  /** Null if the comparison is incomplete. */
  expected: Expected | null
}

/** The disk and the callback of a comparison. */
export interface CompareTools {
  disk: Disk
  /** Called now and then. Throws if the comparison must be abandoned. */
  check?(): void
  elapsedMs?(): number
}

/**
 * Compares a tree with the target. A target that cannot be used fails the check `target_writable`. Refuses what
 * `readTree` refuses, and (`conflict`) changed_meanwhile.
 */
export async function compareTarget(job: CompareJob, tools: CompareTools): Promise<Compared> {
  const tree = readTree(job.tree)
  return { treeSha256: tree.treeSha256, ...(await compareUsable(tree, { job, ...tools })) }
}

/** Returns the function that makes the entries of a deployment. */
function itemsOf(job: CompareJob): (entry: TimedEntry) => WantedItem {
  const groups = new Map(job.groups)
  return ({ path, mode, size, mtimeMs, sha256 }) => {
    if (mode === linkMode) return { path, kind: 'symlink', size, mode: null, mtimeMs, sha256 }
    const given = groups.get(path)
    const gid = given === null ? process.getegid?.() : (given ?? groupUnder(job, 'file'))
    // Copies of objects would take as long as looking the file up.
    const item: WantedItem = {
      path,
      kind: 'file',
      size,
      mode: modeUnder(job, 'file', mode & 0o777),
      mtimeMs,
      sha256
    }
    if (gid !== undefined) item.gid = gid
    return item
  }
}

async function compareUsable(tree: ReceivedTree, comparing: Comparing): Promise<Findings> {
  const { job, disk } = comparing
  try {
    const root = holdIfThere(disk, checkDeployPath(job.target, job.rules))
    try {
      return await compareIn(root, tree, comparing)
    } finally {
      root?.close()
    }
  } catch (error) {
    if (error instanceof Refusal && error.code !== changedCode) return unusable(error, tree)
    if (!hasCode(error, 'EACCES', 'EPERM')) throw error
    return unusable(new Refusal('unavailable', 'not_permitted', `Cannot read the target: ${reasonOf(error)}`), tree)
  }
}

/** Returns the result for a target that a deployment would refuse before it looks at any file. */
function unusable({ code, message }: Refusal, tree: ReceivedTree): Findings {
  const { counts, paths } = createLists(0)
  const bytes = { changed: 0, extracted: tree.bytes, diskNeeded: 0, diskFree: null }
  return { counts, paths, bytes, checks: [failed('target_writable', code, message)], expected: null }
}

type Findings = Omit<Compared, 'treeSha256'>
type WantedItem = Item & { sha256: string }

/** Holds the target, or returns null if it is missing. */
function holdIfThere(disk: Disk, target: string): HeldDirectory | null {
  try {
    return holdTarget(disk, target)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
}

type Comparing = CompareTools & { job: CompareJob }

/** What has been found so far in a target that is there. */
type Comparison = ReturnType<typeof begin>

/** The paths that cannot be put in place, the directories in the way, and the files and links that give way (kept-owner.ts). */
function createWays(lists: Lists) {
  const [blocked, given, ways] = [new Set<string>(), new Set<string>(), new Map<string, Refusal>()]

  function refuse(path: string, { code, message }: Refusal): void {
    blocked.add(path)
    lists.conflict({ path, code, message })
  }

  function onConflict(path: string, refusal: Refusal): void {
    if (given.has(path)) return
    // What is in a directory comes later in the tree.
    if (refusal.code === 'directory_in_the_way') return void ways.set(path, refusal)
    refuse(path, refusal)
  }

  return { blocked, given, ways, refuse, onConflict }
}

function begin(
  root: HeldDirectory,
  tree: ReceivedTree,
  { job, disk, check = () => {}, elapsedMs = () => performance.now() }: Comparing
) {
  const lists = createLists(job.listed)
  const conflicts = createWays(lists)
  const folders = holdFolders(disk, root)
  let needed: ReadonlySet<string> | null = null
  const finder = { disk, digester: createDigester(disk, check) }
  /** The path that `find` looks up. */
  const looked = { path: '' }
  const { reserved = [], removes = null, edited = 'ignore', isUnknown = false } = job
  const deadlineMs = elapsedMs() + job.limitMs
  /** The files that would be removed. */
  const removals: TreeEntry[] = []
  return {
    ...conflicts,
    job,
    disk,
    check,
    lists,
    folders,
    reserved,
    /** Whether the tree needs a directory at the path. */
    needs: (path: string): boolean => (needed ??= directoriesOf(tree)).has(path),
    removals,
    foldersOf: findFolders({ disk, root, held: folders, onConflict: conflicts.onConflict }),
    finder,
    finderOfItems: {
      ...finder,
      onOther: (stats: Stats): void => conflicts.onConflict(looked.path, inTheWay(looked.path, stats))
    },
    looked,
    expected: buildExpected(tree.digits, { contentsSha256: tree.contentsSha256 }),
    writes: createWrites({ disk, root, folders }),
    reservedFault: createReserved(reserved),
    asked: createAsked(removes),
    archives: new Set(job.keeps?.archives),
    rules: { edited, removes, isUnknown },
    /** The paths that svc owns, and those of the tree, if what svc does not own is removed. */
    knownPaths: takesUnowned(removes) ? new Set<string>() : null,
    /** The edits that would be lost. */
    lost: { count: 0, files: [] } as Edits,
    /** The size of what is kept only in the before-images; the number of owned entries, and of those of the tree. */
    totals: { imageBytes: 0, owned: 0, items: 0, isAnyThere: false },
    isLate(): boolean {
      check()
      return elapsedMs() > deadlineMs
    }
  }
}

function directoriesOf(tree: ReceivedTree): Set<string> {
  const found = new Set<string>()
  for (const { path } of tree.entries())
    for (let at = parentOf(path); at !== '' && !found.has(at); at = parentOf(at)) found.add(at)
  return found
}

async function compareIn(root: HeldDirectory | null, tree: ReceivedTree, comparing: Comparing): Promise<Findings> {
  const { job, disk } = comparing
  if (root === null) return compareMissing(tree, { job, disk, lists: createLists(job.listed) })
  const now = begin(root, tree, comparing)
  const { lists, folders, expected, rules, lost, totals } = now
  try {
    const isPartial = !((await compareEntries(now, tree)) && compareUnowned(now))
    settleWays(now)
    now.removals.sort((a, b) => compareTreePaths(a.path, b.path))
    for (const each of now.removals) expected.remove(each)
    const { checks, diskNeeded, diskFree } = checkTarget({ disk, root, folders, ...now.writes.all() })
    const isEmptied = rules.edited === 'keep' && totals.items > 0 && totals.owned > 0 && !totals.isAnyThere
    return {
      counts: lists.counts,
      paths: lists.paths,
      bytes: { changed: now.writes.bytes(), extracted: tree.bytes, diskNeeded, diskFree },
      checks: [
        ...checks,
        checkFileSystem(lists.paths.conflicts),
        checkPrune(rules.removes, lists.counts.pruned, totals.owned),
        isEmptied ? emptied(totals.owned) : checkEdits(rules.edited, lost),
        checkBefore(job.keeps, rules.removes, totals.imageBytes)
      ],
      expected: isPartial ? null : expected.end(job.nowMs)
    }
  } finally {
    folders.close()
  }
}

/** Compares the entries of the tree and those that svc owns, both in canonical order. Returns false if it is late. */
async function compareEntries(now: Comparison, tree: ReceivedTree): Promise<boolean> {
  const { job, knownPaths, totals, isLate } = now
  const itemOf = itemsOf(job)
  const entries = tree.entries()
  const nextItem = (): WantedItem | null => {
    const next = entries.next()
    return next.done === true ? null : itemOf(next.value)
  }
  let item = nextItem()
  for await (const batch of job.owned === null ? [] : readOwnedBatches(job.owned)) {
    for (const owned of batch) {
      if (isDirectory(owned)) continue
      if (isLate()) return false
      totals.owned++
      knownPaths?.add(owned.path)
      for (; item !== null && compareTreePaths(item.path, owned.path) < 0; item = nextItem()) {
        if (isLate()) return false
        compareItem(now, item, null)
      }
      if (item?.path === owned.path) {
        compareItem(now, item, owned)
        item = nextItem()
      } else compareKept(now, owned)
    }
  }
  for (; item !== null; item = nextItem()) {
    if (isLate()) return false
    compareItem(now, item, null)
  }
  return true
}

/** Returns what the owned tree says about an entry, unless every file is to be read. */
function trusted({ job }: Comparison, known: OwnedEntry | null): OwnedEntry | null {
  return job.isFull ? null : known
}

/** Returns the entry at a path, or null. An entry that cannot be read cannot be replaced either. */
function find(now: Comparison, path: string, known: OwnedEntry | null): FoundEntry | null {
  const { finderOfItems, folders, onConflict, looked } = now
  looked.path = path
  try {
    return findEntry(finderOfItems, folders.place(path), trusted(now, known))
  } catch (error) {
    if (error instanceof Refusal) throw changedMeanwhile(path)
    if (!hasCode(error, 'EACCES', 'EPERM')) throw error
    onConflict(path, new Refusal('unavailable', 'not_permitted', `Cannot read "${path}": ${reasonOf(error)}`))
    return null
  }
}

function compareItem(now: Comparison, item: WantedItem, known: OwnedEntry | null): void {
  const { lists, writes, blocked, totals } = now
  const { path } = item
  const folder = now.foldersOf.find(parentOf(path))
  const fault = now.reservedFault(item)
  if (fault !== null) now.onConflict(path, fault)
  const isReachable = !isAtOrBelow(blocked, path)
  const found = isReachable && folder.exists ? find(now, path, known) : null
  now.expected.add(item, found)
  now.knownPaths?.add(path)
  totals.items++
  if (known !== null && found !== null) totals.isAnyThere = true
  if (!isReachable || blocked.has(path)) return
  if (now.ways.has(path)) {
    writes.add(item, folder, null)
    return
  }
  const isAsOwned = known === null ? null : !isEdited(found, known)
  const isAsWanted = found !== null && item.kind === found.kind && found.sha256.startsWith(item.sha256)
  const decision = decide({ isThere: found !== null, isAsOwned, isAsWanted }, now.rules)
  if (decision.does === 'keep') {
    if (found !== null) lists.path('kept', path)
    if (known !== null) lists.drift(driftOf(known, found, false))
    return
  }
  noteLoss(now, decision, { path, known, found })
  const kind = found === null ? 'added' : differenceOf(item, found)
  lists.path(kind, path)
  if (known === null && decision.losesEdit) lists.path('foreign', path)
  if (kind === 'added' || kind === 'changed') writes.add(item, folder, found)
  // An edit that equals the new contents is as good as deployed.
  if (known !== null && isAsOwned === false && !isAsWanted) lists.drift(driftOf(known, found, true))
}

interface Place {
  path: string
  known: OwnedEntry | null
  found: FoundEntry | null
}

function noteLoss(
  { lost, archives, totals }: Comparison,
  { losesEdit, keptIn }: Decision,
  { path, known, found }: Place
): void {
  if (losesEdit && lost.count++ < 3) lost.files.push({ path, since: known?.since ?? '' })
  if (keptIn === 'before' || (keptIn === 'deployment' && !archives.has(known?.since ?? '')))
    totals.imageBytes += found?.size ?? 0
}

function remove(now: Comparison, decision: Decision, place: Place & { found: FoundEntry }): void {
  const { path, found } = place
  noteLoss(now, decision, place)
  now.lists.path('pruned', path)
  now.writes.remove(path, found)
  now.removals.push({ ...found, path })
}

function compareKept(now: Comparison, known: OwnedEntry): void {
  const { lists, reserved } = now
  const { path } = known
  let found: FoundEntry | null = null
  try {
    found = findEntry(now.finder, now.folders.place(path), trusted(now, known))
  } catch (error) {
    // The directory was removed or replaced by a link, or svc may not read it: the file of svc is not there.
    if (!(error instanceof Refusal) && !hasCode(error, 'ENOENT', 'EACCES', 'EPERM')) throw error
  }
  now.totals.isAnyThere ||= found !== null
  const edited = isEdited(found, known)
  if (found !== null && (isAtOrBelow(now.ways, path) || now.needs(path)) && !reserved.includes(path)) {
    if (giveWay(now, known, { found, edited })) return
  }
  const isAsked = now.asked(path) && !reserved.includes(path)
  const decision = decide({ isThere: found !== null, isAsOwned: !edited, isAsWanted: null }, now.rules)
  if (found !== null && isAsked && decision.does === 'remove') remove(now, decision, { path, known, found })
  else if (found !== null) lists.path('kept', path)
  if (edited) lists.drift(driftOf(known, found, false))
}

/** Compares what svc did not put there, if it would be removed. Returns false if it is late. */
function compareUnowned(now: Comparison): boolean {
  const { disk, folders, reserved, check, lists, rules, knownPaths } = now
  if (knownPaths === null || !takesUnowned(rules.removes)) return true
  const { protect } = rules.removes
  const unowned = findUnowned({ disk, folders, protect, known: knownPaths, reserved, check })
  for (const file of unowned.protected) lists.protect(file)
  for (const { path, size } of unowned.files) {
    if (now.isLate()) return false
    const found = find(now, path, null)
    const decision = decide({ isThere: found !== null, isAsOwned: null, isAsWanted: null }, rules)
    if (found === null || decision.does !== 'remove') continue
    lists.unowned({ path, size })
    remove(now, decision, { path, known: null, found })
  }
  return true
}

/** Whether an owned file that is in the way gives way. */
function giveWay(
  now: Comparison,
  known: OwnedEntry,
  { found, edited }: { found: FoundEntry; edited: boolean }
): boolean {
  const { path } = known
  const decision = decide({ isThere: true, isAsOwned: !edited, isAsWanted: false }, now.rules)
  const isProtected = now.rules.removes?.kind === 'absent' && !now.asked(path)
  if (decision.does !== 'replace' || isProtected) return false
  now.given.add(path)
  remove(now, decision, { path, known, found })
  if (edited) now.lists.drift(driftOf(known, found, true))
  return true
}

/** Lists the entries in whose way directories are. */
function settleWays({ disk, folders, lists, ways, given, refuse }: Comparison): void {
  for (const [path, refusal] of ways) {
    try {
      clearWay({ disk, folders }, { path, refusal }, below => given.has(below))
      lists.path('added', path)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      refuse(path, error)
    }
  }
}

/** Everything is added to a target that does not exist, and everything that svc owned was removed. */
async function compareMissing(
  tree: ReceivedTree,
  { job, disk, lists }: { job: CompareJob; disk: Disk; lists: Lists }
): Promise<Findings> {
  const expected = buildExpected(tree.digits, { contentsSha256: tree.contentsSha256 })
  const wanted = new Set<string>()
  const itemOf = itemsOf(job)
  let [items, owned] = [0, 0]
  for (const entry of tree.entries()) {
    const item = itemOf(entry)
    items++
    lists.path('added', item.path)
    expected.add(item, null)
    if (job.owned !== null) wanted.add(item.path)
  }
  for await (const batch of job.owned === null ? [] : readOwnedBatches(job.owned)) {
    for (const known of batch) {
      if (isDirectory(known)) continue
      owned++
      lists.drift(driftOf(known, null, wanted.has(known.path)))
    }
  }
  const { bytes } = tree
  const { checks, diskNeeded, diskFree } = checkMissingTarget(disk, job.target, bytes)
  return {
    counts: lists.counts,
    paths: lists.paths,
    bytes: { changed: bytes, extracted: bytes, diskNeeded, diskFree },
    checks: job.edited === 'keep' && items > 0 && owned > 0 ? [...checks, emptied(owned)] : checks,
    expected: expected.end(job.nowMs)
  }
}

/** Applies the rules of staging (staging.ts). */
function differenceOf(item: WantedItem, found: FoundEntry): 'changed' | 'timeOnly' | 'unchanged' {
  if (item.kind !== found.kind || !found.sha256.startsWith(item.sha256)) return 'changed'
  if (item.kind === 'symlink') return 'unchanged'
  if (item.mode !== (found.mode & 0o7777) || (item.gid ?? found.gid) !== found.gid) return 'changed'
  return Math.abs(found.stats.mtimeMs - (item.mtimeMs as number)) >= sameTimeMs ? 'timeOnly' : 'unchanged'
}

function driftOf({ path, sha256, since }: OwnedEntry, found: FoundEntry | null, overwritten: boolean): DriftedFile {
  const now =
    found === null
      ? { found: null, mtime: null, size: null }
      : { found: found.sha256, mtime: new Date(found.stats.mtimeMs).toISOString(), size: found.size }
  return { path, owned: sha256, ...now, since, overwritten }
}

function checkFileSystem(conflicts: readonly PlanConflict[]): PlanCheck {
  const found = conflicts.find(({ code }) => code === 'other_file_system')
  if (found === undefined) return passed('same_file_system')
  return { ...failed('same_file_system', found.code, found.message), paths: [found.path] }
}

function checkPrune(removes: Removes | null, pruned: number, owned: number): PlanCheck {
  if (removes?.kind !== 'absent' || removes.isForced || !isTooMuch(pruned, owned)) return passed('prune_limit')
  const { code, message } = pruneTooMuch(pruned, owned)
  return failed('prune_limit', code, message)
}

function emptied(count: number): PlanCheck {
  const { code, message } = targetEmptied(count)
  return failed('edited_files', code, message)
}

function checkEdits(edited: Ownership['edited'], lost: Edits): PlanCheck {
  if (edited !== 'refuse' || lost.count === 0) return passed('edited_files')
  const { code, message } = targetDrifted(lost)
  return { ...failed('edited_files', code, message), paths: lost.files.map(({ path }) => path) }
}

function checkBefore(keeps: CompareJob['keeps'], removes: Removes | null, bytes: number): PlanCheck {
  try {
    if (keeps !== undefined) fitBeforeImages([{ size: bytes }], beforeLimits(removes, keeps.before))
    return passed('before_limit')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return failed('before_limit', error.code, error.message)
  }
}

const changedCode = 'changed_meanwhile'

function changedMeanwhile(path: string): Refusal {
  return new Refusal('conflict', changedCode, `"${path}" changed while it was compared. Plan again`)
}
