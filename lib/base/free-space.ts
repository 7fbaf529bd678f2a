// Imported as a whole: Node before 18.15 has no `statfs`, and a missing named export would prevent loading the module.
import fs from 'node:fs/promises'
import { dirname } from 'node:path'
import { hasCode } from './system-error.js'

/**
 * Returns the free space, in bytes, of the file system that `path` is on, or would be on if it does not exist yet. Space
 * reserved for root does not count. Null if it is unknown: some file systems count no blocks, and Node before 18.15
 * cannot ask.
 */
export async function freeBytes(path: string): Promise<number | null> {
  try {
    const { blocks, bavail, bsize } = await fs.statfs(path)
    return blocks === 0 ? null : bavail * bsize
  } catch (error) {
    return hasCode(error, 'ENOENT') && dirname(path) !== path ? freeBytes(dirname(path)) : null
  }
}
