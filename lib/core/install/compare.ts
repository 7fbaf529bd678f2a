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
import { readOwnedTree } from './owned-tree.js'
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
    const item = { path, size, mode: modeUnder(job, 'file', mode & 0o777), mtimeMs, sha256 }
    return { ...item, kind: 'file', ...(gid !== undefined && { gid }) }
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

async function compareIn(
  root: HeldDirectory | null,
  tree: ReceivedTree,
  { job, disk, check = () => {}, elapsedMs = () => performance.now() }: Comparing
): Promise<Findings> {
  const lists = createLists(job.listed)
  const itemOf = itemsOf(job)
  const expected = buildExpected(tree.digits)
  if (root === null) return compareMissing(tree, { job, disk, lists })

  const deadlineMs = elapsedMs() + job.limitMs
  const folders = holdFolders(disk, root)
  const foldersOf = findFolders({ disk, root, held: folders, onConflict })
  const finder = { disk, digester: createDigester(disk, check) }
  const blocked = new Set<string>()
  function onConflict(path: string, refusal: Refusal): void {
    if (given.has(path)) return
    // What is in a directory comes later in the tree.
    if (refusal.code === 'directory_in_the_way') return void ways.set(path, refusal)
    refuse(path, refusal)
  }
  function refuse(path: string, { code, message }: Refusal): void {
    blocked.add(path)
    lists.conflict({ path, code, message })
  }
  /** The directories that the tree needs. */
  const needed = new Set<string>()
  for (const { path } of tree.entries())
    for (let at = parentOf(path); at !== '' && !needed.has(at); at = parentOf(at)) needed.add(at)
  /** The directories in the way, and the files and links that give way (kept-owner.ts). */
  const ways = new Map<string, Refusal>()
  const given = new Set<string>()
  const writes = createWrites({ disk, root, folders })

  const reserved = job.reserved ?? []
  const reservedFault = createReserved(reserved)
  const asked = createAsked(job.removes ?? null)
  const archives = new Set(job.keeps?.archives)
  const { isUnknown = false } = job
  const rules = { edited: job.edited ?? 'ignore', removes: job.removes ?? null, isUnknown }
  /** The edits that would be lost, and the size of what is kept only in the before-images. */
  const lost: Edits = { count: 0, files: [] }
  let imageBytes = 0
  let ownedCount = 0
  let isAnyThere = false
  let itemCount = 0
  /** The files that would be removed. */
  const removals: TreeEntry[] = []
  /** The paths that svc owns, and those of the tree, if what svc does not own is removed. */
  const knownPaths = takesUnowned(rules.removes) ? new Set<string>() : null

  const trusted = (known: OwnedEntry | null): OwnedEntry | null => (job.isFull ? null : known)

  /** Returns the entry at a path, or null. An entry that cannot be read cannot be replaced either. */
  function find(path: string, known: OwnedEntry | null): FoundEntry | null {
    try {
      const onOther = (stats: Stats): void => onConflict(path, inTheWay(path, stats))
      return findEntry({ ...finder, onOther }, folders.place(path), trusted(known))
    } catch (error) {
      if (error instanceof Refusal) throw changedMeanwhile(path)
      if (!hasCode(error, 'EACCES', 'EPERM')) throw error
      onConflict(path, new Refusal('unavailable', 'not_permitted', `Cannot read "${path}": ${reasonOf(error)}`))
      return null
    }
  }

  function compareItem(item: WantedItem, known: OwnedEntry | null): void {
    const { path } = item
    const folder = foldersOf.find(parentOf(path))
    const fault = reservedFault(item)
    if (fault !== null) onConflict(path, fault)
    const isReachable = !isAtOrBelow(blocked, path)
    const found = isReachable && folder.exists ? find(path, known) : null
    expected.add(item, found)
    knownPaths?.add(path)
    itemCount++
    if (known !== null && found !== null) isAnyThere = true
    if (!isReachable || blocked.has(path)) return
    if (ways.has(path)) {
      writes.add(item, folder, null)
      return
    }
    const isAsOwned = known === null ? null : !isEdited(found, known)
    const isAsWanted = found !== null && item.kind === found.kind && found.sha256.startsWith(item.sha256)
    const decision = decide({ isThere: found !== null, isAsOwned, isAsWanted }, rules)
    if (decision.does === 'keep') {
      if (found !== null) lists.path('kept', path)
      if (known !== null) lists.drift(driftOf(known, found, false))
      return
    }
    noteLoss(decision, { path, known, found })
    const kind = found === null ? 'added' : differenceOf(item, found)
    lists.path(kind, path)
    if (known === null && decision.losesEdit) lists.path('foreign', path)
    if (kind === 'added' || kind === 'changed') writes.add(item, folder, found)
    // An edit that equals the new contents is as good as deployed.
    if (known !== null && isAsOwned === false && !isAsWanted) lists.drift(driftOf(known, found, true))
  }

  function noteLoss(
    { losesEdit, keptIn }: Decision,
    { path, known, found }: { path: string; known: OwnedEntry | null; found: FoundEntry | null }
  ): void {
    if (losesEdit && lost.count++ < 3) lost.files.push({ path, since: known?.since ?? '' })
    if (keptIn === 'before' || (keptIn === 'deployment' && !archives.has(known?.since ?? '')))
      imageBytes += found?.size ?? 0
  }

  function compareKept(known: OwnedEntry): void {
    const { path } = known
    let found: FoundEntry | null = null
    try {
      found = findEntry(finder, folders.place(path), trusted(known))
    } catch (error) {
      // The directory was removed or replaced by a link, or svc may not read it: the file of svc is not there.
      if (!(error instanceof Refusal) && !hasCode(error, 'ENOENT', 'EACCES', 'EPERM')) throw error
    }
    isAnyThere ||= found !== null
    const edited = isEdited(found, known)
    if (found !== null && (isAtOrBelow(ways, path) || needed.has(path)) && !reserved.includes(path)) {
      if (giveWay(known, found, edited)) return
    }
    const isAsked = asked(path) && !reserved.includes(path)
    const decision = decide({ isThere: found !== null, isAsOwned: !edited, isAsWanted: null }, rules)
    const isPruned = isAsked && decision.does === 'remove'
    if (found !== null) lists.path(isPruned ? 'pruned' : 'kept', path)
    if (found !== null && isPruned) {
      noteLoss(decision, { path, known, found })
      writes.remove(path, found)
      removals.push({ ...found, path })
    }
    if (edited) lists.drift(driftOf(known, found, false))
  }

  /** Compares what svc did not put there, if it would be removed. */
  function compareUnowned(isLate: () => boolean): boolean {
    if (knownPaths === null || !takesUnowned(rules.removes)) return true
    const { protect } = rules.removes
    const unowned = findUnowned({ disk, folders, protect, known: knownPaths, reserved, check })
    for (const file of unowned.protected) lists.protect(file)
    for (const { path, size } of unowned.files) {
      if (isLate()) return false
      const found = find(path, null)
      const decision = decide({ isThere: found !== null, isAsOwned: null, isAsWanted: null }, rules)
      if (found === null || decision.does !== 'remove') continue
      noteLoss(decision, { path, known: null, found })
      lists.unowned({ path, size })
      lists.path('pruned', path)
      writes.remove(path, found)
      removals.push({ ...found, path })
    }
    return true
  }

  /** Whether an owned file that is in the way gives way. */
  function giveWay(known: OwnedEntry, found: FoundEntry, edited: boolean): boolean {
    const { path } = known
    const decision = decide({ isThere: true, isAsOwned: !edited, isAsWanted: false }, rules)
    const isProtected = rules.removes?.kind === 'absent' && !asked(path)
    if (decision.does !== 'replace' || isProtected) return false
    noteLoss(decision, { path, known, found })
    given.add(path)
    lists.path('pruned', path)
    writes.remove(path, found)
    removals.push({ ...found, path })
    if (edited) lists.drift(driftOf(known, found, true))
    return true
  }

  /** Lists the entries in whose way directories are. */
  function settleWays(): void {
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

  try {
    const isLate = (): boolean => {
      check()
      return elapsedMs() > deadlineMs
    }
    const entries = tree.entries()
    const nextItem = (): WantedItem | null => {
      const next = entries.next()
      return next.done === true ? null : itemOf(next.value)
    }
    let item = nextItem()
    let isPartial = false
    for await (const owned of job.owned === null ? [] : readOwnedTree(job.owned)) {
      if ((isPartial = isLate())) break
      ownedCount++
      knownPaths?.add(owned.path)
      while (item !== null && compareTreePaths(item.path, owned.path) < 0) {
        if ((isPartial = isLate())) break
        compareItem(item, null)
        item = nextItem()
      }
      if (isPartial) break
      if (item?.path === owned.path) {
        compareItem(item, owned)
        item = nextItem()
      } else compareKept(owned)
    }
    for (; item !== null && !isPartial && !(isPartial = isLate()); item = nextItem()) compareItem(item, null)
    if (!isPartial) isPartial = !compareUnowned(isLate)
    settleWays()
    removals.sort((a, b) => compareTreePaths(a.path, b.path))
    for (const each of removals) expected.remove(each)
    const { conflicts } = lists.paths
    const { checks, diskNeeded, diskFree } = checkTarget({ disk, root, folders, ...writes.all() })
    return {
      counts: lists.counts,
      paths: lists.paths,
      bytes: { changed: writes.bytes(), extracted: tree.bytes, diskNeeded, diskFree },
      checks: [
        ...checks,
        checkFileSystem(conflicts),
        checkPrune(job.removes ?? null, lists.counts.pruned, ownedCount),
        rules.edited === 'keep' && itemCount > 0 && ownedCount > 0 && !isAnyThere
          ? emptied(ownedCount)
          : checkEdits(rules.edited, lost),
        checkBefore(job.keeps, rules.removes, imageBytes)
      ],
      expected: isPartial ? null : expected.end(job.nowMs, tree.contentsSha256)
    }
  } finally {
    folders.close()
  }
}

/** Everything is added to a target that does not exist, and everything that svc owned was removed. */
async function compareMissing(
  tree: ReceivedTree,
  { job, disk, lists }: { job: CompareJob; disk: Disk; lists: Lists }
): Promise<Findings> {
  const expected = buildExpected(tree.digits)
  const wanted = new Set<string>()
  const itemOf = itemsOf(job)
  for (const entry of tree.entries()) {
    const item = itemOf(entry)
    lists.path('added', item.path)
    expected.add(item, null)
    if (job.owned !== null) wanted.add(item.path)
  }
  for await (const known of job.owned === null ? [] : readOwnedTree(job.owned)) {
    lists.drift(driftOf(known, null, wanted.has(known.path)))
  }
  const { bytes } = tree
  const { checks, diskNeeded, diskFree } = checkMissingTarget(disk, job.target, bytes)
  return {
    counts: lists.counts,
    paths: lists.paths,
    bytes: { changed: bytes, extracted: bytes, diskNeeded, diskFree },
    checks,
    expected: expected.end(job.nowMs, tree.contentsSha256)
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
