/*
 * Looks again at entries that a script has touched: their present contents, and copies of what no archive contains. It runs
 * in a thread, or in a helper process with the rights of the project's user. Links are never followed, and nothing is
 * written to the target.
 */

import { hasCode, Refusal } from '../../base/errors.js'
import type { OwnedEntry } from '../../model/manifest.js'
import { type BeforeFile, type BeforeImage, fitBeforeImages, writeBeforeImages } from './before-images.js'
import { createDigester, findEntry, type Finder, type FoundEntry, isEdited } from './found-entry.js'
import type { Disk } from './disk.js'
import { type Folders, holdFolders, holdTarget } from './held.js'
import { checkDeployPath, type TargetRules } from './guard.js'
import { modeToKeep } from './kept-owner.js'
import { isDirectory, readOwnedEntries } from './owned-tree.js'

/** The parameters, as plain data. */
export interface LookJob {
  target: string
  rules: TargetRules
  /** The entries that were touched, in canonical order. */
  entries: OwnedEntry[]
  /** Maximum size of the copies. */
  maxBytes: number
}

/** An entry that is not as before. */
export interface LookedEntry {
  /** The number of the entry in the job. */
  index: number
  /** Null: there is neither a file nor a link any more. */
  now: { mode: number; size: number; sha256: string; mtimeMs: number; ino: number; gid?: number } | null
  /** Where its contents are: in the copies, nowhere, or where they were before. */
  kept: 'scripted' | 'none' | 'before'
}

/** A program that a script has started may write to a file while it is copied. */
const maxAttempts = 3

/** Returns the entries that are not as before, in their order. */
export async function lookAgain(
  job: LookJob,
  images: BeforeFile,
  { disk, check = () => {} }: { disk: Disk; check?(): void }
): Promise<LookedEntry[]> {
  const root = holdTarget(disk, checkDeployPath(job.target, job.rules))
  const folders = holdFolders(disk, root)
  const needs = { disk, folders, finder: { disk, digester: createDigester(disk, check) }, check }
  try {
    for (let attempt = 1; ; attempt++) {
      const looked = job.entries.flatMap((entry, index) => {
        check()
        return lookAt(entry, index, needs) ?? []
      })
      try {
        await copy(job, { looked, images, ...needs })
        return looked
      } catch (error) {
        if (!(error instanceof Refusal) || error.code !== 'target_changed') throw error
        images.remove()
        if (attempt === maxAttempts)
          return looked.map(entry => (entry.kept === 'scripted' ? { ...entry, kept: 'none' } : entry))
      }
    }
  } finally {
    folders.close()
    root.close()
  }
}

interface Looking {
  folders: Folders
  finder: Finder
}

/** Returns null if the entry is as before, or cannot be read. */
function lookAt(entry: OwnedEntry, index: number, { finder, folders }: Looking): LookedEntry | null {
  let found: FoundEntry | null = null
  try {
    const place = folders.place(entry.path)
    if (isDirectory(entry)) {
      const isThere = finder.disk.lstatSync(place, { throwIfNoEntry: false })?.isDirectory() ?? false
      return isThere ? null : { index, now: null, kept: 'before' }
    }
    found = findEntry(finder, place, null)
  } catch (error) {
    if (hasCode(error, 'EACCES', 'EPERM')) return null
    // A directory above it was removed, or replaced by a link.
    if (!(error instanceof Refusal) && !hasCode(error, 'ENOENT', 'ENOTDIR')) throw error
  }
  if (found === null) return { index, now: null, kept: 'before' }
  const { size, sha256, stats } = found
  const { mtimeMs, ino } = stats
  const mode = modeToKeep(stats)
  const isSame = !isEdited(found, entry)
  // Nobody asks for the group of a file that svc gave none.
  const group = entry.gid === undefined ? {} : { gid: found.gid }
  const isAsBefore = mode === entry.mode && group.gid === entry.gid && mtimeMs === entry.mtimeMs && ino === entry.ino
  if (isSame && isAsBefore) return null
  return { index, now: { mode, size, sha256, mtimeMs, ino, ...group }, kept: isSame ? 'before' : 'scripted' }
}

interface Copying {
  looked: LookedEntry[]
  images: BeforeFile
  disk: Disk
  folders: Folders
  check(): void
}

/** Copies contents that are new, as far as the limit allows. */
async function copy({ entries, maxBytes }: LookJob, { looked, images, ...needs }: Copying): Promise<void> {
  const wanted = looked.flatMap((each): Array<BeforeImage & { each: LookedEntry }> => {
    const { now, index } = each
    if (now === null || each.kept !== 'scripted') return []
    return [{ ...now, path: (entries[index] as OwnedEntry).path, each }]
  })
  const fit = fitBeforeImages(wanted, { maxBytes, isRequired: false })
  for (const image of wanted) if (!fit.has(image)) image.each.kept = 'none'
  if (fit.size > 0) await writeBeforeImages(images, fit, needs)
}

/*
 * Marks of the entries that svc owns in a target: their times, sizes and inodes. Marks before and after a script show
 * what the script has touched. The kernel sets the change time of an inode at every write, rename and change of a mode,
 * and no program can set it. The marks of two moments are compared for equality only, so no clock matters.
 *
 * Only names are looked up: nothing is read, links are never followed, and nothing is written.
 */

/** The parameters, as plain data. */
export interface MarkJob {
  target: string
  rules: TargetRules
  /** The owned tree (owned-tree.ts): its contents, or its path. */
  owned: Uint8Array | string
}

/** Numbers of each mark: change time, modification time, size, inode. */
const perMark = 4
/** Number of bytes of each mark. */
export const markBytes = perMark * Float64Array.BYTES_PER_ELEMENT

/** Returns the marks of all entries of the tree, in their order. */
export async function markTarget(
  { target, rules, owned }: MarkJob,
  { disk, check = () => {} }: { disk: Disk; check?(): void }
): Promise<Uint8Array<ArrayBuffer>> {
  const marks: number[] = []
  const root = holdTarget(disk, checkDeployPath(target, rules))
  const folders = holdFolders(disk, root)
  try {
    for await (const entry of readOwnedEntries(owned)) {
      check()
      marks.push(...markOf(disk, folders, entry))
    }
  } finally {
    folders.close()
    root.close()
  }
  return new Uint8Array(Float64Array.from(marks).buffer)
}

const absent = [-1, -1, -1, -1]
/** The times of a directory change with its contents, which are not svc's alone. */
const present = [0, 0, 0, 0]

function markOf(disk: Disk, folders: Folders, entry: { path: string; mode: number }): number[] {
  try {
    const stats = disk.lstatSync(folders.place(entry.path), { throwIfNoEntry: false })
    if (stats === undefined) return absent
    if (stats.isDirectory()) return isDirectory(entry) ? present : absent
    if (isDirectory(entry)) return absent
    return [stats.ctimeMs, stats.mtimeMs, stats.size, stats.ino]
  } catch (error) {
    // A directory above it was removed, or replaced by a link or a file: the entry itself is not there.
    if (error instanceof Refusal || hasCode(error, 'ENOENT', 'ENOTDIR', 'EACCES', 'EPERM')) return absent
    throw error
  }
}

/** Returns the numbers of the entries whose marks differ. */
export function differingMarks(before: Uint8Array, after: Uint8Array): Set<number> {
  const differing = new Set<number>()
  for (let at = 0; at < Math.max(before.length, after.length); at += markBytes) {
    if (Buffer.compare(before.subarray(at, at + markBytes), after.subarray(at, at + markBytes)) !== 0)
      differing.add(at / markBytes)
  }
  return differing
}
