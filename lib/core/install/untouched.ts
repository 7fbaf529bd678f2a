/*
 * Saves the work of a deployment that changes little. The owned tree says which size, times and inode each file had when
 * svc had put it in place or had read it last. A file that still has all of them was not touched: nobody can set the
 * time of the last change of an inode (ctime). If the archive gives it the time that it has, its contents are taken for
 * those of the archive, and neither is read. That proves nothing yet, so the digest of the whole tree is compared with
 * the one that is wanted; if they differ, everything is read.
 */
import { fileType } from '../../base/shared/tree-text.js'
import type { Disk } from './disk.js'
import type { Folders } from './held.js'
import { readOwnedBatches, UnusableTree } from './owned-tree.js'
import type { Item, Records } from './plan.js'

/** An extraction that may take files as they are. */
interface Taking {
  disk: Disk
  folders: Folders
  items: readonly Item[]
  records: Records
  /** The owned tree, its path or its contents. */
  tree: string | Uint8Array
  /** Times that differ by less than this are the same. */
  toleranceMs: number
  /** Throws if the extraction must be abandoned. */
  check(): void
}

/** Settles the files that were not touched as unchanged. Returns their indexes. */
export async function takeUntouched({
  disk,
  folders,
  items,
  records,
  tree,
  toleranceMs,
  check
}: Taking): Promise<number[]> {
  const indexes = new Map(items.map(({ path }, index) => [path, index]))
  const taken: number[] = []
  try {
    for await (const batch of readOwnedBatches(tree)) {
      for (const owned of batch) {
        check()
        const index = indexes.get(owned.path)
        if (index === undefined || owned.ctimeMs === undefined || records.existing(index) !== 'file') continue
        const item = items[index] as Item
        if (item.kind !== 'file' || item.size !== owned.size || item.mtimeMs === null) continue
        const stats = disk.lstatSync(folders.place(owned.path), { throwIfNoEntry: false })
        if (stats === undefined || !stats.isFile() || stats.size !== owned.size || stats.ino !== owned.ino) continue
        if (stats.mtimeMs !== owned.mtimeMs || stats.ctimeMs !== owned.ctimeMs) continue
        if (Math.abs(stats.mtimeMs - item.mtimeMs) >= toleranceMs) continue
        if (item.mode !== (stats.mode & permissionBits) || (item.gid ?? stats.gid) !== stats.gid) continue
        const sha256 = Buffer.from(owned.sha256, 'hex')
        const { mode, gid, size, mtimeMs, ino, ctimeMs } = stats
        records.setBefore(index, { size, mode, gid, sha256 }, stats)
        records.settle(index, 'unchanged', {
          mode: fileType | (mode & permissionBits),
          gid,
          sha256,
          mtimeMs,
          ino,
          ctimeMs
        })
        taken.push(index)
      }
    }
  } catch (error) {
    // Everything is read.
    if (!(error instanceof UnusableTree)) throw error
  }
  return taken
}

const permissionBits = 0o7777

/** What was changed so shortly before may be changed once more without another time: clocks of kernels are that coarse. */
const coarseMs = 20

/**
 * Returns the time of the last change of each file and link that the manifest lists, in its order; NaN if it is not known
 * or too young. Call it when everything is in place. What stays as it was has the time at which it was read.
 */
export function changeTimes({
  disk,
  folders,
  items,
  order,
  records
}: Pick<Taking, 'disk' | 'folders' | 'items' | 'records'> & { order: readonly number[] }): Float64Array {
  const listed = order.filter(index => records.outcome(index) !== 'kept')
  const youngest = Date.now() - coarseMs
  return Float64Array.from(listed, index => {
    const { path, size } = items[index] as Item
    if (records.outcome(index) === 'unchanged') return records.ctimeMs(index)
    const stats = disk.lstatSync(folders.place(path), { throwIfNoEntry: false })
    const isIt = stats?.ino === records.ino(index) && stats.mtimeMs === records.mtimeMs(index) && stats.size === size
    return isIt && stats.ctimeMs < youngest ? stats.ctimeMs : Number.NaN
  })
}
