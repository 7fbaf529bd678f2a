/*
 * What a set of items will meet in the target, found out before anything is changed: which directories are there
 * already, which files would be replaced, and what stands in the way. A file where a directory must be, the reverse,
 * and a symbolic link where a directory must be are refused here; svc deletes nothing that the archive does not name.
 */
import { Refusal } from '../base/refusal.js'
import type { Disk } from './disk.js'
import { throughLink, type HeldDirectory } from './guard.js'

/** What is to be put in place: an entry of an archive, seen from the target. */
export interface Item {
  /** Relative to the target, `/` between segments, checked. */
  path: string
  kind: 'file' | 'directory' | 'symlink'
  size: number
  /** Permission bits; null: as the umask has it. */
  mode: number | null
  /** Null: now. */
  mtimeMs: number | null
}

/** A directory that items lie in; parents come before their children. */
export interface Folder {
  /** `''` is the target itself. */
  path: string
  parent: Folder | null
  /** Whether the target has it. */
  exists: boolean
  /** The directory's own item, when the archive has one. */
  item: Item | null
}

/** What the target has where an item belongs. */
export type Existing = 'none' | 'file' | 'symlink'

export interface Plan {
  folders: readonly Folder[]
  /** For each item, the folder it lies in, and what is there; directories have `none`. */
  folderOf: readonly Folder[]
  existing: readonly Existing[]
}

/** Refuses (`conflict`): written_through_link, file_in_the_way, directory_in_the_way, special_file_in_the_way. */
export function planTarget(disk: Disk, root: HeldDirectory, items: readonly Item[]): Plan {
  const top: Folder = { path: '', parent: null, exists: true, item: null }
  const byPath = new Map([['', top]])
  const device = disk.lstatSync(`${root.path}/.`).dev

  function folder(path: string): Folder {
    const known = byPath.get(path)
    if (known !== undefined) return known
    const parent = folder(parentOf(path))
    const found: Folder = { path, parent, exists: parent.exists && isDirectory(path), item: null }
    byPath.set(path, found)
    return found
  }

  function isDirectory(path: string): boolean {
    const stats = disk.lstatSync(`${root.path}/${path}`, { throwIfNoEntry: false })
    if (stats === undefined) return false
    if (stats.isSymbolicLink()) throw throughLink(path)
    if (!stats.isDirectory()) {
      throw conflict('file_in_the_way', `"${path}" is a directory in the archive, but a file in the target`)
    }
    if (stats.dev !== device) {
      throw conflict('other_file_system',
        `"${path}" in the target is on another file system, and files cannot be moved there in one step`)
    }
    return true
  }

  function existing(path: string): Existing {
    const stats = disk.lstatSync(`${root.path}/${path}`, { throwIfNoEntry: false })
    if (stats === undefined) return 'none'
    if (stats.isFile()) return 'file'
    if (stats.isSymbolicLink()) return 'symlink'
    if (stats.isDirectory()) {
      throw conflict('directory_in_the_way', `"${path}" is a file in the archive, but a directory in the target`)
    }
    throw conflict('special_file_in_the_way', `"${path}" in the target is neither a file nor a directory`)
  }

  const plan = { folderOf: [] as Folder[], existing: [] as Existing[] }
  for (const item of items) {
    const own = item.kind === 'directory' ? folder(item.path) : null
    if (own !== null) own.item = item
    const within = own?.parent ?? folder(parentOf(item.path))
    plan.folderOf.push(within)
    plan.existing.push(own === null && within.exists ? existing(item.path) : 'none')
  }
  return { folders: [...byPath.values()], ...plan }
}

function conflict(code: string, reason: string): Refusal {
  return new Refusal('conflict', code, `Nothing was changed: ${reason}`)
}

/** The path of the directory that `path` lies in; `''` is the target itself. */
export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}
