/*
 * Marks of the entries that svc owns in a target: their times, sizes and inodes. Marks before and after a script show
 * what the script has touched. The kernel sets the change time of an inode at every write, rename and change of a mode,
 * and no program can set it. The marks of two moments are compared for equality only, so no clock matters.
 *
 * Only names are looked up: nothing is read, links are never followed, and nothing is written.
 */
import { hasCode, Refusal } from '../base/errors.js'
import type { Disk } from './disk.js'
import { holdFolders, type Folders } from './folders.js'
import { checkDeployPath, type TargetRules } from './guard.js'
import { isDirectory, readOwnedEntries } from './owned-tree.js'
import { holdTarget } from './reach.js'

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
