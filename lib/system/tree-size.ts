import { lstat, opendir } from 'node:fs/promises'
import { join } from 'node:path'

/** Where a walk gives up: a panel is waiting for it. */
export interface WalkLimits {
  maxEntries: number
  /** By `performance.now()`. */
  deadlineMs: number
}

/**
 * Bytes of the files below a directory, links not followed, a file with several names counted once; null where it is
 * missing, unreadable, or too large to be counted within the limits.
 */
export async function measureTree(directory: string, { maxEntries, deadlineMs }: WalkLimits): Promise<number | null> {
  const counted = new Set<string>()
  const directories = [directory]
  let entries = 0
  let bytes = 0
  try {
    for (let at = directories.pop(); at !== undefined; at = directories.pop()) {
      for await (const entry of await opendir(at)) {
        if (++entries > maxEntries || performance.now() > deadlineMs) return null
        const path = join(at, entry.name)
        if (entry.isDirectory()) directories.push(path)
        else if (entry.isFile()) bytes += await sizeOnce(path, counted)
      }
    }
  } catch {
    return null
  }
  return bytes
}

async function sizeOnce(path: string, counted: Set<string>): Promise<number> {
  const stats = await lstat(path).catch(() => null)
  if (stats === null) return 0
  if (stats.nlink > 1) {
    const id = `${stats.dev}:${stats.ino}`
    if (counted.has(id)) return 0
    counted.add(id)
  }
  return stats.size
}
