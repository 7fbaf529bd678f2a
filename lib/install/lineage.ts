/*
 * The current location of a target, for comparing two targets. A lineage contains the directory and all directories
 * above it, each by its real path and by its device and inode. The latter also identifies one directory under two paths
 * (a bind mount, a file system that ignores case).
 */
import { realpath, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/** The location of a directory. */
export interface Lineage {
  /** The path without links. The part that does not exist is unchanged. */
  readonly real: string
  /** The names of the directory itself: its real path, and its device and inode. */
  readonly self: readonly string[]
  /** The names of the directory and of all directories above it. */
  readonly all: ReadonlySet<string>
}

/** Looks up the location of an absolute path. Throws if it cannot be determined (a loop of links). */
export async function lineageOf(path: string): Promise<Lineage> {
  const real = await realPlaceOf(path)
  const self = await namesOf(real)
  const all = new Set(self)
  for (let at = real; at !== dirname(at); ) {
    at = dirname(at)
    for (const name of await namesOf(at)) all.add(name)
  }
  return { real, self, all }
}

/** Whether both are the same directory, or one contains the other. */
export function areOverlapping(one: Lineage, other: Lineage): boolean {
  return one.self.some(name => other.all.has(name)) || other.self.some(name => one.all.has(name))
}

async function namesOf(directory: string): Promise<string[]> {
  const stats = await stat(directory, { bigint: true }).catch(() => null)
  return stats === null ? [directory] : [directory, `${stats.dev}:${stats.ino}`]
}

async function realPlaceOf(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if ((code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EACCES') || path === dirname(path)) throw error
    return join(await realPlaceOf(dirname(path)), basename(path))
  }
}
