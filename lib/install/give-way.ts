/*
 * Paths that change between file, directory and link. What is in the way of an entry of the archive gives way if svc put
 * it there, and is not edited on the server: a file or a link where the archive has a directory, or a directory where it
 * has a file or a link, if nothing in it belongs to anybody else. It is removed like a file that a prune removes, but
 * before anything is put in place.
 *
 * A plan (compare.ts) and a deployment (reckon.ts) both ask here.
 */
import { parentOf } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import type { Disk } from './disk.js'
import type { Folders } from './folders.js'
import { otherGroup } from './kept-owner.js'

/** The refusals of entries that give way if svc owns them. */
const yielding: ReadonlySet<string> = new Set(['file_in_the_way', 'directory_in_the_way', 'written_through_link'])

/** Whether an entry in the way may give way. */
export function mayGiveWay({ code }: Pick<Refusal, 'code'>): boolean {
  return yielding.has(code)
}

/** Whether a path, or a directory above it, is one of these. */
export function isAtOrBelow(paths: { size: number; has(path: string): boolean }, path: string): boolean {
  if (paths.size === 0) return false
  for (let at = path; at !== ''; at = parentOf(at)) if (paths.has(at)) return true
  return false
}

/** A directory that goes. */
export interface ClearedDirectory {
  path: string
  mode: number
  mtimeMs: number
  gid?: number
}

/** The disk, and the directories of the target. */
export interface WayNeeds {
  disk: Disk
  folders: Folders
}

/**
 * Returns the directories that go, children first, if everything at a path gives way; none for a file or a link.
 * `isGiven` says which files and links do. Throws `refusal`, with the name of the first one that does not.
 */
export function clearWay(
  { disk, folders }: WayNeeds,
  { path, refusal }: { path: string; refusal: Refusal },
  isGiven: (path: string) => boolean
): ClearedDirectory[] {
  const top = disk.lstatSync(folders.place(path), { throwIfNoEntry: false })
  if (!top?.isDirectory()) {
    if (isGiven(path)) return []
    throw refusal
  }
  const cleared: ClearedDirectory[] = []
  const visit = (directory: string): void => {
    for (const name of disk.readdirSync(folders.at(directory)).sort()) {
      const below = `${directory}/${name}`
      const stats = disk.lstatSync(folders.place(below), { throwIfNoEntry: false })
      if (stats?.isDirectory() && stats.dev === top.dev) visit(below)
      else if (stats === undefined || !isGiven(below)) throw notOwned(refusal, below)
    }
    const stats = disk.lstatSync(folders.place(directory))
    cleared.push({ path: directory, mode: stats.mode, mtimeMs: stats.mtimeMs, ...otherGroup(stats) })
  }
  visit(path)
  return cleared
}

function notOwned({ code, message }: Refusal, path: string): Refusal {
  return new Refusal('conflict', code, `${message} with "${path}", which svc did not put there. Move it away`)
}

/** Returns the refusal of an entry in the way that stays; `why` is the end of a sentence. */
export function staysInTheWay({ code, message }: Refusal, path: string, why: string): Refusal {
  return new Refusal('conflict', code, `${message}, and "${path}" ${why}`)
}

/** Returns the first of these paths at which, or below which, a path is. */
export function wayOf(paths: ReadonlyMap<string, Refusal>, path: string): Refusal | null {
  for (let at = path; at !== ''; at = parentOf(at)) {
    const refusal = paths.get(at)
    if (refusal !== undefined) return refusal
  }
  return null
}
