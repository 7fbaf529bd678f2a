/*
 * Decides, after staging and before anything is moved, what an extraction does about the files that are in the target:
 *
 *   edited files      that svc put in place, that somebody has edited since, and that would be replaced by other contents.
 *                     An edit that equals the new contents is not lost, and does not count.
 *   removed files     owned files that the archive does not contain (prune), or that are named (an exact rollback). Only
 *                     files that are still as svc put them there; they are read for that. Files that svc never put there
 *                     are not looked at, unless the deployment removes them, too (ownership.ts).
 *   removed folders   directories that svc made and that become empty.
 *   kept contents     where the contents of each replaced or removed file are kept: in the archive of the deployment that
 *                     put it there, or in the before-images (before-images.ts).
 *
 * Staging has digested the replaced files anyhow, so this reads the owned tree and the files to remove. It writes nothing
 * but the before-images.
 */
import { Refusal } from '../../base/errors.js'
import type { EarlierFile, KeptContents, OwnedEntry } from '../../model/manifest.js'
import { compareTreePaths } from '../../base/shared/tree-text.js'
import { beforeLimits, decide, findUnowned, type Ownership, takesUnowned } from './ownership.js'
import { type BeforeFile, type BeforeImage, fitBeforeImages, writeBeforeImages } from './before-images.js'
import type { Disk } from './disk.js'
import type { Folders } from './held.js'
import { type FoundEntry, isEdited } from './found-entry.js'
import { clearWay, otherOwner, staysInTheWay, wayOf } from './kept-owner.js'
import { isDirectory, readOwnedEntries, UnusableTree } from './owned-tree.js'
import type { Item, Plan, Records } from './plan.js'
import {
  createRemoval,
  earlierDirectory,
  isTooMuch,
  pruneTooMuch,
  type RemovedDirectory,
  type RemovedFile
} from './removal.js'

/** Edited files: their number, and some of them. */
export interface Edits {
  count: number
  /** The first of them, with the deployment that put each in place. */
  files: Array<{ path: string; since: string; isGone?: true }>
}

/** The decisions about one extraction. */
export interface Reckoned {
  /** Edited files that are replaced or removed. */
  replaced: Edits
  /** Edited files that stay as they are. */
  kept: Edits
  /** In canonical order. */
  removed: readonly RemovedFile[]
  /** Files to be removed that somebody else had removed: svc does not own them any more. In canonical order. */
  gone: readonly string[]
  /** Children first. */
  directories: readonly RemovedDirectory[]
  /** What the paths contained that change between file, directory and link (kept-owner.ts). */
  gaveWay: ReadonlyMap<string, EarlierFile>
  /** Returns where the earlier contents of an item are kept; undefined if they are those of the new entry. */
  keptOf(index: number): KeptContents | undefined
  /** The deployments whose archives contain what is replaced or removed; also `before` and `none`. */
  beforeFrom: string[]
  /** Size of the before-images in bytes; 0 if there are none. */
  beforeBytes: number
}

export interface ReckonNeeds {
  disk: Disk
  folders: Folders
  items: readonly Item[]
  /** The items in canonical order. */
  order: readonly number[]
  records: Records
  plan: Pick<Plan, 'folders' | 'inTheWay'>
  before: BeforeFile
  /** The path of the staging directory in calls (held.ts). */
  staging: string
  /** Paths that are never removed (guard.ts); absent: none. */
  reserved?: readonly string[] | undefined
  /** Throws if the extraction must be abandoned. */
  check(): void
}

const maxListed = 20
const maxNamed = 3
const typeBits = 0o170000

/**
 * Makes the decisions, and writes the before-images. Refuses (`conflict`): target_drifted, prune_too_much,
 * target_changed; (`too_large`) before_too_large.
 */
export async function reckon(ownership: Ownership, needs: ReckonNeeds): Promise<Reckoned> {
  const reckoning = createReckoning(ownership, needs)
  try {
    await reckoning.walk()
  } catch (error) {
    // The tree is made again from the manifests. A deployment that only reads it to warn does without.
    const isNeeded =
      needs.plan.inTheWay.size > 0 ||
      ownership.edited === 'refuse' ||
      ownership.edited === 'keep' ||
      ownership.removes !== null
    if (!(error instanceof UnusableTree) || isNeeded) throw error
    return reckon({ ...ownership, tree: null, isUnknown: true }, needs)
  }
  return await reckoning.end()
}

/** The sources of kept contents, by number: 0 means those of the new entry. */
const firstSources: ReadonlyArray<KeptContents | undefined> = [undefined, 'before', 'none']
const beforeSource = 1
const noSource = 2

function createReckoning(ownership: Ownership, needs: ReckonNeeds) {
  const { items, order, records, check } = needs
  const sources = [...firstSources]
  const sourceNumbers = new Map<string, number>()
  const archives = new Set(ownership.archives)
  const sourceOf = new Uint16Array(items.length)
  let removedSources: number[] = []
  const [replaced, kept] = [createEdits(), createEdits()]
  let removed: RemovedFile[] = []
  const gone: string[] = []
  const removal = createRemoval(ownership, needs)
  /** The paths that svc owns, if it removes what it does not. */
  const owned = takesUnowned(ownership.removes) ? new Set<string>() : null
  let ownedCount = 0
  let isAnyThere = false

  /** Returns the number of the source for contents that a deployment put in place. */
  function archiveOf(deployId: string): number {
    if (!archives.has(deployId)) return beforeSource
    const known = sourceNumbers.get(deployId)
    if (known !== undefined) return known
    const number = sources.push(`archive:${deployId}`) - 1
    sourceNumbers.set(deployId, number)
    return number
  }

  function keepItem(index: number, since: string): void {
    const { path } = items[index] as Item
    kept.add(path, since, records.before(index) === null)
    // A new directory is moved into place with all its contents.
    needs.disk.unlinkSync(`${needs.staging}/files/${path}`)
    records.keep(index)
  }

  /** Decides about an item; `known` is the owned entry at its path. */
  function settleItem(index: number, known: OwnedEntry | null): void {
    if (known !== null && records.existing(index) !== 'none') isAnyThere = true
    if (records.outcome(index) !== 'staged') return
    const before = records.before(index)
    const isAsOwned = known === null ? null : before !== null && sameContents(before, known)
    const isAsWanted = before !== null && !isReplaced(records, index)
    const { does, losesEdit, keptIn } = decide({ isThere: before !== null, isAsOwned, isAsWanted }, ownership)
    if (does === 'keep') return keepItem(index, known?.since ?? '')
    if (losesEdit) replaced.add((items[index] as Item).path, known?.since ?? '')
    if (keptIn !== null) sourceOf[index] = sourceFor(keptIn, known)
  }

  function nameEdit(known: OwnedEntry): void {
    const found = removal.look(known)
    isAnyThere ||= found !== null
    if (isEdited(found, known)) kept.add(known.path, known.since, found === null)
  }

  function sourceFor(keptIn: 'deployment' | 'before', known: OwnedEntry | null): number {
    return keptIn === 'deployment' && known !== null ? archiveOf(known.since) : beforeSource
  }

  function settleOther(known: OwnedEntry): void {
    if (needs.reserved?.includes(known.path)) return
    const refusal = wayOf(needs.plan.inTheWay, known.path)
    if (refusal !== null) return giveWay(known, refusal)
    if (!removal.isAsked(known.path)) {
      // An exact state is not reached where somebody has changed a file that no deployment since did.
      if (ownership.exact !== null) nameEdit(known)
      return
    }
    const found = removal.find(known)
    isAnyThere ||= found !== null
    if (found === null) return void gone.push(known.path)
    const given = { isThere: true, isAsOwned: !isEdited(found, known), isAsWanted: null }
    const { does, losesEdit, keptIn } = decide(given, ownership)
    if (does !== 'remove' || keptIn === null) return kept.add(known.path, known.since)
    if (losesEdit) replaced.add(known.path, known.since)
    removed.push({ path: known.path, before: earlierOf(found), ino: found.stats.ino })
    removedSources.push(sourceFor(keptIn, known))
  }

  /** Removes an owned file that is in the way of another type of entry. */
  function giveWay(known: OwnedEntry, refusal: Refusal): void {
    const found = removal.find(known)
    isAnyThere ||= found !== null
    if (found === null) return void gone.push(known.path)
    const { path, since } = known
    if (ownership.removes?.kind === 'absent' && !removal.isAsked(path))
      throw staysInTheWay(refusal, path, 'is protected by the policy "protect"')
    const given = { isThere: true, isAsOwned: !isEdited(found, known), isAsWanted: false }
    const { does, losesEdit, keptIn } = decide(given, ownership)
    if (does !== 'replace' || keptIn === null) throw staysInTheWay(refusal, path, 'was edited on the server')
    if (losesEdit) replaced.add(path, since)
    removed.push({ path, before: earlierOf(found), ino: found.stats.ino, givesWay: true })
    removedSources.push(sourceFor(keptIn, known))
  }

  /** Returns the directories that give way, children first. */
  function clearWays(): RemovedDirectory[] {
    if (needs.plan.inTheWay.size === 0) return []
    const given = new Set(removed.flatMap(({ path, givesWay }) => (givesWay ? [path] : [])))
    return [...needs.plan.inTheWay].flatMap(([path, refusal]) =>
      clearWay(needs, { path, refusal }, below => given.has(below)).map(each => ({ ...each, givesWay: true as const }))
    )
  }

  /** Returns what the paths contained that change their type. */
  function earlierTypes(cleared: readonly RemovedDirectory[]): Map<string, EarlierFile> {
    const earlier = new Map<string, EarlierFile>()
    const { inTheWay } = needs.plan
    for (const { path, before } of removed) if (inTheWay.has(path)) earlier.set(path, before)
    for (const directory of cleared)
      if (inTheWay.has(directory.path)) earlier.set(directory.path, earlierDirectory(directory))
    return earlier
  }

  async function walk(): Promise<void> {
    const isRead =
      needs.plan.inTheWay.size > 0 || ownership.removes !== null || order.some(index => isReplaced(records, index))
    let next = 0
    const pathAt = (at: number): string => (items[order[at] as number] as Item).path
    for await (const known of isRead && ownership.tree !== null ? readOwnedEntries(ownership.tree) : []) {
      check()
      if (isDirectory(known)) {
        removal.noteDirectory(known.path)
        continue
      }
      ownedCount++
      owned?.add(known.path)
      while (next < order.length && compareTreePaths(pathAt(next), known.path) < 0) {
        settleItem(order[next++] as number, null)
      }
      if (next < order.length && pathAt(next) === known.path) settleItem(order[next++] as number, known)
      else settleOther(known)
    }
    while (next < order.length) settleItem(order[next++] as number, null)
    removeUnowned()
  }

  /** Removes what svc did not put there, if it was asked to. */
  function removeUnowned(): void {
    const { removes } = ownership
    if (owned === null || !takesUnowned(removes)) return
    const known = new Set([...owned, ...items.map(({ path }) => path)])
    const { reserved = [] } = needs
    const unowned = findUnowned({ ...needs, protect: removes.protect, known, reserved })
    for (const { path } of unowned.files) {
      const found = removal.find({ path })
      const { does } = decide({ isThere: found !== null, isAsOwned: null, isAsWanted: null }, ownership)
      if (found === null || does !== 'remove') continue
      // It was asked for. The policy may refuse it all the same.
      if (ownership.edited === 'refuse') replaced.add(path, '')
      const { ino, uid, gid } = found.stats
      removed.push({ path, before: { ...earlierOf(found), owner: { uid, gid } }, ino })
      removedSources.push(beforeSource)
    }
    for (const path of unowned.directories) removal.noteDirectory(path)
    const order = removed.map((file, at) => ({ file, source: removedSources[at] as number }))
    order.sort((a, b) => compareTreePaths(a.file.path, b.file.path))
    removed = order.map(({ file }) => file)
    removedSources = order.map(({ source }) => source)
  }

  async function end(): Promise<Reckoned> {
    if (ownership.edited === 'keep' && order.length > 0 && ownedCount > 0 && !isAnyThere)
      throw targetEmptied(ownedCount)
    if (ownership.edited === 'refuse' && replaced.all.count > 0) throw targetDrifted(replaced.all)
    const { removes } = ownership
    const pruned = removed.filter(({ givesWay }) => givesWay !== true).length
    const isMost = isTooMuch(pruned, ownedCount)
    if (removes?.kind === 'absent' && !removes.isForced && isMost) throw pruneTooMuch(pruned, ownedCount)
    const cleared = clearWays()
    const isCleared = new Set(cleared.map(({ path }) => path))
    const others = removal.directories(removed).filter(({ path }) => !isCleared.has(path))
    const beforeBytes = await writeBefore()
    removed.forEach(({ before }, at) => {
      const source = sources[removedSources[at] as number]
      if (source !== undefined) before.kept = source
    })
    return {
      replaced: replaced.all,
      kept: kept.all,
      removed,
      gone,
      directories: [...cleared, ...others],
      gaveWay: earlierTypes(cleared),
      keptOf: index => sources[sourceOf[index] as number],
      beforeFrom: usedSources(),
      beforeBytes
    }
  }

  /** Returns the sources that contain what is replaced or removed. */
  function usedSources(): string[] {
    const used = new Set(removedSources)
    for (const number of sourceOf) used.add(number)
    const others = [beforeSource, noSource].filter(number => used.has(number)).map(number => sources[number] as string)
    return [...sourceNumbers.keys(), ...others]
  }

  /** Writes the before-images. What does not fit is noted as not kept. */
  async function writeBefore(): Promise<number> {
    const images: Array<BeforeImage & { drop(): void }> = []
    for (const index of order) {
      if (sourceOf[index] !== beforeSource) continue
      const { size, mode, sha256 } = records.before(index) as NonNullable<ReturnType<Records['before']>>
      const { path } = items[index] as Item
      const image = { path, size, mode, sha256: hex(sha256), mtimeMs: records.timeBeforeMs(index) }
      images.push({ ...image, drop: () => void (sourceOf[index] = noSource) })
    }
    removed.forEach(({ path, before }, at) => {
      if (removedSources[at] !== beforeSource) return
      const { size, mode, sha256, mtimeMs = 0 } = before
      images.push({ path, size, mode, sha256, mtimeMs, drop: () => void (removedSources[at] = noSource) })
    })
    if (images.length === 0) return 0
    const fit = fitBeforeImages(images, beforeLimits(ownership.removes, ownership.before))
    for (const image of images) if (!fit.has(image)) image.drop()
    return fit.size === 0 ? 0 : writeBeforeImages(needs.before, fit, needs)
  }

  return { walk, end }
}

/** Whether the earlier contents, or the type, of an item are replaced. */
function isReplaced(records: Records, index: number): boolean {
  if (records.outcome(index) !== 'staged') return false
  const before = records.before(index)
  if (before === null) return false
  const isSame = Buffer.compare(before.sha256, records.sha256(index)) === 0
  return !isSame || (before.mode & typeBits) !== (records.mode(index) & typeBits)
}

/** Returns what a manifest says of an entry that is removed. */
function earlierOf({ size, mode, sha256, stats }: FoundEntry): EarlierFile {
  const owner = otherOwner(stats)
  return { size, mode, sha256, mtimeMs: stats.mtimeMs, ...(owner !== undefined && { owner }) }
}

function sameContents(before: { mode: number; sha256: Uint8Array }, known: OwnedEntry): boolean {
  return (before.mode & typeBits) === (known.mode & typeBits) && hex(before.sha256) === known.sha256
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')
}

function createEdits(): { all: Edits; add(path: string, since: string, isGone?: boolean): void } {
  const all: Edits = { count: 0, files: [] }
  return {
    all,
    add(path, since, isGone = false) {
      all.count++
      if (all.files.length < maxListed) all.files.push({ path, since, ...(isGone && { isGone }) })
    }
  }
}

/** The 409 for a target in which nothing of svc is left: a way back that keeps what somebody removed would do nothing. */
export function targetEmptied(count: number): Refusal {
  const what =
    count === 1 ? 'the file that svc put into the target is' : `the ${count} files that svc put into the target are`
  const sentence =
    `Nothing was changed: ${what} not there any more. Check that its disk is mounted; with --force, the files ` +
    'are brought back'
  return new Refusal('conflict', 'target_emptied', sentence)
}

/** The 409 for edited files, and those that svc did not put there, which the policy protects. */
export function targetDrifted({ count, files }: Edits): Refusal {
  const names = files.slice(0, maxNamed).map(({ path }) => `"${path}"`)
  const more = count > names.length ? `, and ${count - names.length} more` : ''
  const isForeign = files.some(({ since }) => since === '')
  const how = isForeign ? 'edited on the server, or put there by somebody else' : 'edited on the server'
  const sentence =
    `Nothing was changed: ${names.join(', ')}${more} ${count === 1 ? 'was' : 'were'} ${how}, and the policy "drift" ` +
    'of the project is "refuse". Take the edits into the build, or put the files back'
  return new Refusal('conflict', 'target_drifted', sentence)
}
