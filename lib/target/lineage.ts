/*
 * Where a target lies at this moment, so that two can be compared: the directory and all that contain it, by their real
 * paths and by device and inode. The latter also finds one directory under two paths (a bind mount, a file system that
 * ignores case).
 */
import { realpath, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

export interface Lineage {
  /** The path without links; what does not exist of it, as it stands. */
  readonly real: string
  /** The directory itself, under each of its names. */
  readonly self: readonly string[]
  /** The same of it and of all directories above it. */
  readonly all: ReadonlySet<string>
}

/** Looks up where an absolute path leads; throws if that cannot be found out (a circle of links). */
export async function lineageOf(path: string): Promise<Lineage> {
  const real = await realPlaceOf(path)
  const self = await namesOf(real)
  const all = new Set(self)
  for (let at = real; at !== dirname(at);) {
    at = dirname(at)
    for (const name of await namesOf(at)) all.add(name)
  }
  return { real, self, all }
}

/** Whether they are one directory, or one contains the other. */
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
