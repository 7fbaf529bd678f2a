/*
 * Compares a tree with the target: what a deployment of these files would add, replace, and leave as it is. The disk is
 * compared, not the records about it. The rules are those of a deployment (unpack/stage.ts), directories are held as in
 * a deployment (folders.ts), links are never followed, and nothing is written.
 *
 * It runs in a thread, or in a helper process with the rights of the project's user. A comparison that takes too long
 * ends early, and says that it is incomplete.
 */
import type { Stats } from 'node:fs'
import { readTree, type ReceivedTree } from '../archive/tree-wire.js'
import type { TimedEntry } from '../archive/tree.js'
import { parentOf } from '../base/paths.js'
import { Refusal } from '../base/refusal.js'
import { hasCode, reasonOf } from '../base/system-error.js'
import type { DriftedFile, PlanBytes, PlanCheck, PlanConflict, PlanCounts, PlanPaths } from '../model/plan.js'
import type { OwnedEntry } from '../model/tree.js'
import { compareTreePaths, linkMode } from '../shared/tree-text.js'
import { createDigester } from './digest.js'
import type { Disk } from './disk.js'
import { buildExpected, type Expected } from './expected.js'
import { createLists, createWrites, type Lists } from './findings.js'
import { findEntry, isEdited, type FoundEntry } from './found-entry.js'
import { holdFolders } from './folders.js'
import { checkDeployPath, type TargetRules } from './guard.js'
import type { HeldDirectory } from './held.js'
import type { Removes } from './ownership.js'
import { readOwnedTree } from './owned-tree.js'
import { createAsked, isTooMuch, pruneTooMuch } from './removal.js'
import { findFolders, inTheWay, type Item } from './plan.js'
import { checkMissingTarget, checkTarget, failed, passed } from './preflight.js'
import { holdTarget } from './reach.js'
import { sameTimeMs } from './regular.js'
import { createReserved } from './reserved.js'

/** The parameters of a comparison, as plain data. */
export interface CompareJob {
  target: string
  rules: TargetRules
  /** The body of the request (archive/tree-wire.ts). */
  tree: Uint8Array
  /** The owned tree (owned-tree.ts): its contents, or its path. Null if svc does not know what it owns. */
  owned: Uint8Array | string | null
  /** Which owned files would be removed; default: none. */
  removes?: Removes | null
  /** Whether those that somebody edited would be removed, too. */
  takesEdited?: boolean
  /** Whether files stay that somebody edited, removed or put there, although the tree contains them. */
  keepsEdited?: boolean
  /** Paths that the archive must not touch (reserved.ts); default: none. */
  reserved?: readonly string[]
  /** Whether every file is read, although the owned tree proves that it is untouched. */
  isFull?: boolean
  /** The project's own umask, which removes bits from the modes of the tree; null if the umask of svc applies. */
  umask: number | null
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

/** Returns the entry of a deployment. */
function itemOf({ path, mode, size, mtimeMs, sha256 }: TimedEntry, umask: number | null): WantedItem {
  const isLink = mode === linkMode
  const permissions = mode & 0o777 & ~(umask ?? 0)
  return { path, kind: isLink ? 'symlink' : 'file', size, mode: isLink ? null : permissions, mtimeMs, sha256 }
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
  const expected = buildExpected(tree.digits)
  if (root === null) return compareMissing(tree, { job, disk, lists })

  const deadlineMs = elapsedMs() + job.limitMs
  const folders = holdFolders(disk, root)
  const foldersOf = findFolders({ disk, root, held: folders, onConflict })
  const finder = { disk, digester: createDigester(disk) }
  const blocked = new Set<string>()
  function onConflict(path: string, { code, message }: Refusal): void {
    blocked.add(path)
    lists.conflict({ path, code, message })
  }
  const writes = createWrites({ disk, root, folders })

  const reserved = job.reserved ?? []
  const reservedFault = createReserved(reserved)
  const asked = createAsked(job.removes ?? null)
  let ownedCount = 0

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
    const isReachable = !isBelow(blocked, path)
    const found = isReachable && folder.exists ? find(path, known) : null
    expected.add(item, found)
    if (!isReachable || blocked.has(path)) return
    if (job.keepsEdited && isTakenByOthers(item, { found, known })) {
      if (found !== null) lists.path('kept', path)
      if (known !== null) lists.drift(driftOf(known, found, false))
      return
    }
    const kind = found === null ? 'added' : differenceOf(item, found)
    lists.path(kind, path)
    if (kind === 'added' || kind === 'changed') writes.add(item, folder, found)
    if (known !== null && isEdited(found, known)) lists.drift(driftOf(known, found, true))
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
    const edited = isEdited(found, known)
    const isPruned = asked(path) && !reserved.includes(path) && found !== null && (!edited || job.takesEdited === true)
    if (found !== null) lists.path(isPruned ? 'pruned' : 'kept', path)
    if (found !== null && isPruned) {
      writes.remove(path, found)
      expected.remove({ ...found, path })
    }
    if (edited) lists.drift(driftOf(known, found, false))
  }

  try {
    const isLate = (): boolean => {
      check()
      return elapsedMs() > deadlineMs
    }
    const entries = tree.entries()
    const nextItem = (): WantedItem | null => {
      const next = entries.next()
      return next.done === true ? null : itemOf(next.value, job.umask)
    }
    let item = nextItem()
    let isPartial = false
    for await (const known of job.owned === null ? [] : readOwnedTree(job.owned)) {
      if ((isPartial = isLate())) break
      ownedCount++
      while (item !== null && compareTreePaths(item.path, known.path) < 0) {
        if ((isPartial = isLate())) break
        compareItem(item, null)
        item = nextItem()
      }
      if (isPartial) break
      if (item?.path === known.path) {
        compareItem(item, known)
        item = nextItem()
      } else compareKept(known)
    }
    for (; item !== null && !isPartial && !(isPartial = isLate()); item = nextItem()) compareItem(item, null)
    const { conflicts } = lists.paths
    const { checks, diskNeeded, diskFree } = checkTarget({ disk, root, folders, ...writes.all() })
    return {
      counts: lists.counts,
      paths: lists.paths,
      bytes: { changed: writes.bytes(), extracted: tree.bytes, diskNeeded, diskFree },
      checks: [...checks, checkFileSystem(conflicts), checkPrune(job.removes ?? null, lists.counts.pruned, ownedCount)],
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
  for (const entry of tree.entries()) {
    const item = itemOf(entry, job.umask)
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

/** Applies the rules of an exact change (reckon.ts): somebody else has a say in what is at the path. */
function isTakenByOthers(
  item: WantedItem,
  { found, known }: { found: FoundEntry | null; known: OwnedEntry | null }
): boolean {
  if (found === null) return known !== null
  const isWanted = found.kind === item.kind && found.sha256 === item.sha256
  return !isWanted && (known === null || isEdited(found, known))
}

/** Applies the rules of staging (unpack/stage.ts). */
function differenceOf(item: WantedItem, found: FoundEntry): 'changed' | 'timeOnly' | 'unchanged' {
  if (item.kind !== found.kind || !found.sha256.startsWith(item.sha256)) return 'changed'
  if (item.kind === 'symlink') return 'unchanged'
  if (item.mode !== (found.mode & 0o7777)) return 'changed'
  return Math.abs(found.stats.mtimeMs - (item.mtimeMs as number)) >= sameTimeMs ? 'timeOnly' : 'unchanged'
}

function driftOf({ path, sha256, since }: OwnedEntry, found: FoundEntry | null, overwritten: boolean): DriftedFile {
  const now =
    found === null
      ? { found: null, mtime: null, size: null }
      : { found: found.sha256, mtime: new Date(found.stats.mtimeMs).toISOString(), size: found.size }
  return { path, owned: sha256, ...now, since, overwritten }
}

function isBelow(blocked: ReadonlySet<string>, path: string): boolean {
  if (blocked.size === 0) return false
  for (let at = path; at !== ''; at = parentOf(at)) if (blocked.has(at)) return true
  return false
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

const changedCode = 'changed_meanwhile'

function changedMeanwhile(path: string): Refusal {
  return new Refusal('conflict', changedCode, `"${path}" changed while it was compared. Plan again`)
}
