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
import { isDirectory, readOwnedBatches, UnusableTree } from './owned-tree.js'
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
  const reckoning = new Reckoning({ ...needs, ownership })
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

type ReckoningNeeds = ReckonNeeds & { ownership: Ownership }

/** The decisions about one extraction: `walk` reads what svc owns, and `end` gives the result. */
class Reckoning {
  readonly #needs: ReckoningNeeds
  readonly #sources = [...firstSources]
  readonly #sourceNumbers = new Map<string, number>()
  readonly #archives: ReadonlySet<string>
  /** The number of the source of each item. */
  readonly #sourceOf: Uint16Array
  #removedSources: number[] = []
  readonly #replaced = createEdits()
  readonly #kept = createEdits()
  #removed: RemovedFile[] = []
  readonly #gone: string[] = []
  readonly #removal: ReturnType<typeof createRemoval>
  /** The paths that svc owns, if it removes what it does not. */
  readonly #owned: Set<string> | null
  #ownedCount = 0
  #isAnyThere = false

  constructor(needs: ReckoningNeeds) {
    const { ownership, items } = needs
    this.#needs = needs
    this.#archives = new Set(ownership.archives)
    this.#sourceOf = new Uint16Array(items.length)
    this.#removal = createRemoval(ownership, needs)
    this.#owned = takesUnowned(ownership.removes) ? new Set<string>() : null
  }

  async walk(): Promise<void> {
    const { ownership, order, records, items, check } = this.#needs
    const isRead =
      this.#needs.plan.inTheWay.size > 0 ||
      ownership.removes !== null ||
      order.some(index => isReplaced(records, index))
    let next = 0
    const pathAt = (at: number): string => (items[order[at] as number] as Item).path
    for await (const batch of isRead && ownership.tree !== null ? readOwnedBatches(ownership.tree) : []) {
      for (const known of batch) {
        check()
        if (isDirectory(known)) {
          this.#removal.noteDirectory(known.path)
          continue
        }
        this.#ownedCount++
        this.#owned?.add(known.path)
        while (next < order.length && compareTreePaths(pathAt(next), known.path) < 0) {
          this.#settleItem(order[next++] as number, null)
        }
        if (next < order.length && pathAt(next) === known.path) this.#settleItem(order[next++] as number, known)
        else this.#settleOther(known)
      }
    }
    while (next < order.length) this.#settleItem(order[next++] as number, null)
    this.#removeUnowned()
  }

  async end(): Promise<Reckoned> {
    const { ownership, order } = this.#needs
    if (ownership.edited === 'keep' && order.length > 0 && this.#ownedCount > 0 && !this.#isAnyThere)
      throw targetEmptied(this.#ownedCount)
    if (ownership.edited === 'refuse' && this.#replaced.all.count > 0) throw targetDrifted(this.#replaced.all)
    const { removes } = ownership
    const pruned = this.#removed.filter(({ givesWay }) => givesWay !== true).length
    const isMost = isTooMuch(pruned, this.#ownedCount)
    if (removes?.kind === 'absent' && !removes.isForced && isMost) throw pruneTooMuch(pruned, this.#ownedCount)
    const cleared = this.#clearWays()
    const isCleared = new Set(cleared.map(({ path }) => path))
    const others = this.#removal.directories(this.#removed).filter(({ path }) => !isCleared.has(path))
    const beforeBytes = await this.#writeBefore()
    this.#removed.forEach(({ before }, at) => {
      const source = this.#sources[this.#removedSources[at] as number]
      if (source !== undefined) before.kept = source
    })
    return {
      replaced: this.#replaced.all,
      kept: this.#kept.all,
      removed: this.#removed,
      gone: this.#gone,
      directories: [...cleared, ...others],
      gaveWay: this.#earlierTypes(cleared),
      keptOf: index => this.#sources[this.#sourceOf[index] as number],
      beforeFrom: this.#usedSources(),
      beforeBytes
    }
  }

  /** Returns the number of the source for contents that a deployment put in place. */
  #archiveOf(deployId: string): number {
    if (!this.#archives.has(deployId)) return beforeSource
    const known = this.#sourceNumbers.get(deployId)
    if (known !== undefined) return known
    const number = this.#sources.push(`archive:${deployId}`) - 1
    this.#sourceNumbers.set(deployId, number)
    return number
  }

  #keepItem(index: number, since: string): void {
    const { items, records } = this.#needs
    const { path } = items[index] as Item
    this.#kept.add(path, since, records.before(index) === null)
    // A new directory is moved into place with all its contents.
    this.#needs.disk.unlinkSync(`${this.#needs.staging}/files/${path}`)
    records.keep(index)
  }

  /** Decides about an item; `known` is the owned entry at its path. */
  #settleItem(index: number, known: OwnedEntry | null): void {
    const { records, ownership, items } = this.#needs
    if (known !== null && records.existing(index) !== 'none') this.#isAnyThere = true
    if (records.outcome(index) !== 'staged') return
    const before = records.before(index)
    const isAsOwned = known === null ? null : before !== null && sameContents(before, known)
    const isAsWanted = before !== null && !isReplaced(records, index)
    const { does, losesEdit, keptIn } = decide({ isThere: before !== null, isAsOwned, isAsWanted }, ownership)
    if (does === 'keep') return this.#keepItem(index, known?.since ?? '')
    if (losesEdit) this.#replaced.add((items[index] as Item).path, known?.since ?? '')
    if (keptIn !== null) this.#sourceOf[index] = this.#sourceFor(keptIn, known)
  }

  #nameEdit(known: OwnedEntry): void {
    const found = this.#removal.look(known)
    this.#isAnyThere ||= found !== null
    if (isEdited(found, known)) this.#kept.add(known.path, known.since, found === null)
  }

  #sourceFor(keptIn: 'deployment' | 'before', known: OwnedEntry | null): number {
    return keptIn === 'deployment' && known !== null ? this.#archiveOf(known.since) : beforeSource
  }

  #settleOther(known: OwnedEntry): void {
    if (this.#needs.reserved?.includes(known.path)) return
    const refusal = wayOf(this.#needs.plan.inTheWay, known.path)
    if (refusal !== null) return this.#giveWay(known, refusal)
    if (!this.#removal.isAsked(known.path)) {
      // An exact state is not reached where somebody has changed a file that no deployment since did.
      if (this.#needs.ownership.exact !== null) this.#nameEdit(known)
      return
    }
    const found = this.#removal.find(known)
    this.#isAnyThere ||= found !== null
    if (found === null) return void this.#gone.push(known.path)
    const given = { isThere: true, isAsOwned: !isEdited(found, known), isAsWanted: null }
    const { does, losesEdit, keptIn } = decide(given, this.#needs.ownership)
    if (does !== 'remove' || keptIn === null) return this.#kept.add(known.path, known.since)
    if (losesEdit) this.#replaced.add(known.path, known.since)
    this.#removed.push({ path: known.path, before: earlierOf(found), ino: found.stats.ino })
    this.#removedSources.push(this.#sourceFor(keptIn, known))
  }

  /** Removes an owned file that is in the way of another type of entry. */
  #giveWay(known: OwnedEntry, refusal: Refusal): void {
    const found = this.#removal.find(known)
    this.#isAnyThere ||= found !== null
    if (found === null) return void this.#gone.push(known.path)
    const { path, since } = known
    if (this.#needs.ownership.removes?.kind === 'absent' && !this.#removal.isAsked(path))
      throw staysInTheWay(refusal, path, 'is protected by the policy "protect"')
    const given = { isThere: true, isAsOwned: !isEdited(found, known), isAsWanted: false }
    const { does, losesEdit, keptIn } = decide(given, this.#needs.ownership)
    if (does !== 'replace' || keptIn === null) throw staysInTheWay(refusal, path, 'was edited on the server')
    if (losesEdit) this.#replaced.add(path, since)
    this.#removed.push({ path, before: earlierOf(found), ino: found.stats.ino, givesWay: true })
    this.#removedSources.push(this.#sourceFor(keptIn, known))
  }

  /** Returns the directories that give way, children first. */
  #clearWays(): RemovedDirectory[] {
    if (this.#needs.plan.inTheWay.size === 0) return []
    const given = new Set(this.#removed.flatMap(({ path, givesWay }) => (givesWay ? [path] : [])))
    return [...this.#needs.plan.inTheWay].flatMap(([path, refusal]) =>
      clearWay(this.#needs, { path, refusal }, below => given.has(below)).map(each => ({
        ...each,
        givesWay: true as const
      }))
    )
  }

  /** Returns what the paths contained that change their type. */
  #earlierTypes(cleared: readonly RemovedDirectory[]): Map<string, EarlierFile> {
    const earlier = new Map<string, EarlierFile>()
    const { inTheWay } = this.#needs.plan
    for (const { path, before } of this.#removed) if (inTheWay.has(path)) earlier.set(path, before)
    for (const directory of cleared)
      if (inTheWay.has(directory.path)) earlier.set(directory.path, earlierDirectory(directory))
    return earlier
  }

  /** Removes what svc did not put there, if it was asked to. */
  #removeUnowned(): void {
    const { ownership, items } = this.#needs
    const { removes } = ownership
    if (this.#owned === null || !takesUnowned(removes)) return
    const known = new Set([...this.#owned, ...items.map(({ path }) => path)])
    const { reserved = [] } = this.#needs
    const unowned = findUnowned({ ...this.#needs, protect: removes.protect, known, reserved })
    for (const { path } of unowned.files) {
      const found = this.#removal.find({ path })
      const { does } = decide({ isThere: found !== null, isAsOwned: null, isAsWanted: null }, ownership)
      if (found === null || does !== 'remove') continue
      // It was asked for. The policy may refuse it all the same.
      if (ownership.edited === 'refuse') this.#replaced.add(path, '')
      const { ino, uid, gid } = found.stats
      this.#removed.push({ path, before: { ...earlierOf(found), owner: { uid, gid } }, ino })
      this.#removedSources.push(beforeSource)
    }
    for (const path of unowned.directories) this.#removal.noteDirectory(path)
    const order = this.#removed.map((file, at) => ({ file, source: this.#removedSources[at] as number }))
    order.sort((a, b) => compareTreePaths(a.file.path, b.file.path))
    this.#removed = order.map(({ file }) => file)
    this.#removedSources = order.map(({ source }) => source)
  }

  /** Returns the sources that contain what is replaced or removed. */
  #usedSources(): string[] {
    const used = new Set(this.#removedSources)
    for (const number of this.#sourceOf) used.add(number)
    const others = [beforeSource, noSource]
      .filter(number => used.has(number))
      .map(number => this.#sources[number] as string)
    return [...this.#sourceNumbers.keys(), ...others]
  }

  /** Writes the before-images. What does not fit is noted as not kept. */
  async #writeBefore(): Promise<number> {
    const { order, records, items, ownership } = this.#needs
    const images: Array<BeforeImage & { drop(): void }> = []
    for (const index of order) {
      if (this.#sourceOf[index] !== beforeSource) continue
      const { size, mode, sha256 } = records.before(index) as NonNullable<ReturnType<Records['before']>>
      const { path } = items[index] as Item
      const image = { path, size, mode, sha256: hex(sha256), mtimeMs: records.timeBeforeMs(index) }
      images.push({ ...image, drop: () => void (this.#sourceOf[index] = noSource) })
    }
    this.#removed.forEach(({ path, before }, at) => {
      if (this.#removedSources[at] !== beforeSource) return
      const { size, mode, sha256, mtimeMs = 0 } = before
      images.push({ path, size, mode, sha256, mtimeMs, drop: () => void (this.#removedSources[at] = noSource) })
    })
    if (images.length === 0) return 0
    const fit = fitBeforeImages(images, beforeLimits(ownership.removes, ownership.before))
    for (const image of images) if (!fit.has(image)) image.drop()
    return fit.size === 0 ? 0 : writeBeforeImages(this.#needs.before, fit, this.#needs)
  }
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
    `No file was changed: ${what} not there any more. Check that its disk is mounted. "svc undo --force" and ` +
    '"svc rollback --force" bring the files back, on a node its page'
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
