// Imported as a whole: a named import that an old Node lacks would prevent loading the module.
import fs from 'node:fs/promises'
import type { DiskFigures } from '../../model/machine.js'

/** The figures of a disk that cannot be read. */
export const unknownDisk: DiskFigures = { freeBytes: null, totalBytes: null, percentUsed: null }

/**
 * Returns the figures of the file system of `directory`. Like `df`, it counts space reserved for root as neither used
 * nor free.
 */
export async function readDisk(directory: string): Promise<DiskFigures> {
  try {
    const { bsize, blocks, bfree, bavail } = await fs.statfs(directory) // since Node 18.15; unknown before
    const used = blocks - bfree
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize, percentUsed: percentOf(used, used + bavail) }
  } catch {
    return unknownDisk
  }
}

/** Returns a percentage with two decimals, or 0 if `whole` is 0. */
export function percentOf(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((part / whole) * 10_000) / 100
}
