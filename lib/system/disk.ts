// As a whole: a name that this Node does not have would keep the module from being loaded.
import fs from 'node:fs/promises'
import type { DiskFigures } from '../model/machine.js'

export const unknownDisk: DiskFigures = { freeBytes: null, totalBytes: null, percentUsed: null }

/** The file system that holds `directory`, as `df` counts: what root has reserved is neither used nor free. */
export async function readDisk(directory: string): Promise<DiskFigures> {
  try {
    const { bsize, blocks, bfree, bavail } = await fs.statfs(directory) // Node 18.15; before, it is unknown
    const used = blocks - bfree
    return { freeBytes: bavail * bsize, totalBytes: blocks * bsize, percentUsed: percentOf(used, used + bavail) }
  } catch {
    return unknownDisk
  }
}

/** Percent with two decimals; 0 of nothing. */
export function percentOf(part: number, whole: number): number {
  return whole === 0 ? 0 : Math.round((part / whole) * 10_000) / 100
}
