import { constants, type Stats } from 'node:fs'
import { lstat, open, opendir, type FileHandle } from 'node:fs/promises'
import { nameOfDescriptor } from '../base/descriptors.js'

/** Where a walk gives up: a panel is waiting for it. */
export interface WalkLimits {
  maxEntries: number
  /** By `performance.now()`. */
  deadlineMs: number
}

/** A deeper tree is not counted: each level keeps two descriptors. */
const maxDepth = 100
const directoryFlags = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | (constants.O_NONBLOCK ?? 0)

/**
 * Bytes of the files below a directory, links not followed, a file with several names counted once; null where it is
 * missing, unreadable, or too large to be counted within the limits. A directory that its owner exchanges for a link
 * meanwhile is not followed either: each is opened by its name in the one above it.
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
      if (++entries > limits.maxEntries || performance.now() > limits.deadlineMs) throw new Error('The tree is too large')
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
