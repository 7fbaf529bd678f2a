/*
 * What a set of items will meet in the target, found out before anything is changed: which directories are there
 * already, which files would be replaced, and what stands in the way. A file where a directory must be, the reverse,
 * and a symbolic link where a directory must be are refused here; svc deletes nothing that the archive does not name.
 */
import type { Dirent } from 'node:fs'
import { parentOf } from '../base/paths.js'
import { Refusal } from '../base/refusal.js'
import type { Disk } from './disk.js'
import { holdFolders, nameOf, throughLink, type Folders } from './folders.js'
import { statHeld, type HeldDirectory } from './held.js'

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
  const folders = holdFolders(disk, root)
  try {
    return planIn(disk, root, folders, items)
  } finally {
    folders.close()
  }
}

function planIn(disk: Disk, root: HeldDirectory, held: Folders, items: readonly Item[]): Plan {
  const { dev: device, size: topBytes } = statHeld(disk, root)
  const top: Known = { path: '', parent: null, exists: true, item: null, ownBytes: topBytes, itemCount: 0 }
  const byPath = new Map([['', top]])

  function folder(path: string): Known {
    const known = byPath.get(path)
    if (known !== undefined) return known
    const parent = folder(parentOf(path))
    const ownBytes = parent.exists ? directoryBytes(path) : null
    const found: Known = { path, parent, exists: ownBytes !== null, item: null, ownBytes: ownBytes ?? 0, itemCount: 0 }
    byPath.set(path, found)
    return found
  }

  function directoryBytes(path: string): number | null {
    const stats = disk.lstatSync(held.place(path), { throwIfNoEntry: false })
    if (stats === undefined) return null
    if (stats.isSymbolicLink()) throw throughLink(path)
    if (!stats.isDirectory()) {
      throw conflict('file_in_the_way', `"${path}" is a directory in the archive, but a file in the target`)
    }
    if (stats.dev !== device) {
      throw conflict('other_file_system',
        `"${path}" in the target is on another file system, and files cannot be moved there in one step`)
    }
    return stats.size
  }

  const folderOf = items.map(item => {
    const own = item.kind === 'directory' ? folder(item.path) : null
    if (own !== null) own.item = item
    const within = own?.parent as Known | undefined ?? folder(parentOf(item.path))
    within.itemCount++
    return within
  })
  const lookUp = createLookUp(disk, held)
  const existing = items.map(({ path, kind }, index): Existing => {
    const within = folderOf[index] as Known
    return kind !== 'directory' && within.exists ? lookUp(path, within) : 'none'
  })
  return { folders: [...byPath.values()], folderOf, existing }
}

/** A folder, with what tells how to look for the items in it. */
interface Known extends Folder {
  parent: Known | null
  /** What stat says of a directory that is there: it grows with the names in it. */
  ownBytes: number
  itemCount: number
}

/** Fewer items of a directory are looked at one by one. */
const minListedItems = 8
/** A directory with so many bytes for each item has far more names than are asked for: each is looked at by itself. */
const maxBytesPerItem = 512

/**
 * Looks what the target has at a path. One list of a directory costs less than a look at each of its files; what is not
 * in the list is looked at all the same, because a file system may find it under another name (`Logo.png`, `logo.png`).
 * measured: bench/extract
 */
function createLookUp(disk: Disk, held: Folders): (path: string, within: Known) => Existing {
  const lists = new Map<Known, ReadonlyMap<string, Dirent>>()

  function list(folder: Known): ReadonlyMap<string, Dirent> {
    const known = lists.get(folder)
    if (known !== undefined) return known
    const names = disk.readdirSync(held.at(folder.path), { withFileTypes: true })
    const byName = new Map(names.map(entry => [entry.name, entry]))
    lists.set(folder, byName)
    return byName
  }

  return (path, within) => {
    const { itemCount, ownBytes } = within
    const isListed = itemCount >= minListedItems && ownBytes <= itemCount * maxBytesPerItem
    const listed = isListed ? list(within).get(nameOf(path)) : undefined
    const found = listed ?? disk.lstatSync(held.place(path), { throwIfNoEntry: false })
    if (found === undefined) return 'none'
    if (found.isFile()) return 'file'
    if (found.isSymbolicLink()) return 'symlink'
    if (found.isDirectory()) {
      throw conflict('directory_in_the_way', `"${path}" is a file in the archive, but a directory in the target`)
    }
    throw conflict('special_file_in_the_way', `"${path}" in the target is neither a file nor a directory`)
  }
}

function conflict(code: string, reason: string): Refusal {
  return new Refusal('conflict', code, `Nothing was changed: ${reason}`)
}
