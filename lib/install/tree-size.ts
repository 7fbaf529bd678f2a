import { constants, type Stats } from 'node:fs'
import { lstat, open, opendir, type FileHandle } from 'node:fs/promises'
import { nameOfDescriptor } from '../base/files.js'

/** Limits of a walk. The panel waits for the result, so a walk stops early. */
export interface WalkLimits {
  maxEntries: number
  /** Time of `performance.now()` at which the walk stops. */
  deadlineMs: number
}

/** A deeper tree is not measured: each level keeps two descriptors open. */
const maxDepth = 100
const directoryFlags = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NONBLOCK ?? 0)

/**
 * Returns the total size in bytes of the files below a directory. Links are not followed, and a file with several names
 * counts once. Returns null if the directory is missing, unreadable, or exceeds the limits. A directory that its owner
 * replaces with a link in the meantime is not followed either: each directory is opened by its name in the one above
 * it.
 */
export async function measureTree(directory: string, limits: WalkLimits): Promise<number | null> {
  const counted = new Set<string>()
  let entries = 0

  async function measure(place: string, flags: number, depth: number): Promise<number> {
    if (depth > maxDepth) throw new Error('The tree is too deep')
    const handle = await open(place, flags)
    try {
      return await measureOpened(handle, place, depth)
    } finally {
      await handle.close()
    }
  }

  async function measureOpened({ fd }: FileHandle, place: string, depth: number): Promise<number> {
    const here = nameOfDescriptor(fd, place)
    let bytes = 0
    for await (const entry of await opendir(here)) {
      if (++entries > limits.maxEntries || performance.now() > limits.deadlineMs)
        throw new Error('The tree is too large')
      const path = `${here}/${entry.name}`
      if (entry.isDirectory()) bytes += await measure(path, directoryFlags | (constants.O_NOFOLLOW ?? 0), depth + 1)
      else if (entry.isFile()) bytes += sizeOnce(await lstat(path).catch(() => null), counted)
    }
    return bytes
  }

  return measure(directory, directoryFlags, 0).catch(() => null)
}

function sizeOnce(stats: Stats | null, counted: Set<string>): number {
  if (stats === null) return 0
  if (stats.nlink > 1) {
    const id = `${stats.dev}:${stats.ino}`
    if (counted.has(id)) return 0
    counted.add(id)
  }
  return stats.size
}
