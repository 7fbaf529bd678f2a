/*
 * Determines how a set of items relates to the target before anything is changed: which directories exist already,
 * which files would be replaced, and what is in the way. Refuses a file where a directory must be, the reverse, and a
 * symbolic link where a directory must be, unless it may give way (kept-owner.ts). svc deletes nothing else that the archive
 * does not name.
 */

import type { Dirent, Stats } from 'node:fs'
import { parentOf } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import type { FileOwner } from '../../model/manifest.js'
import type { Disk } from './disk.js'
import { mayGiveWay } from './kept-owner.js'
import { type Folders, type HeldDirectory, holdFolders, nameOf, statHeld, throughLink } from './held.js'

/** An entry to be put in place: an entry of an archive, with its path in the target. */
export interface Item {
  /** Relative to the target, with `/` between segments, already checked. */
  path: string
  kind: 'file' | 'directory' | 'symlink'
  size: number
  /** Permission bits, or null for those that the umask gives. */
  mode: number | null
  /** Modification time in milliseconds since 1970, or null for the current time. */
  mtimeMs: number | null
  /** Absent if it is that of the process. */
  owner?: FileOwner
  /** The group, whatever that of `owner` is; absent: that of the owner. */
  gid?: number
  /** Whether nobody asks for that group: it is that of the process, as that of each file is. */
  isUsualGroup?: true
}

/** A directory that contains items. Parents come before their children. */
export interface Folder {
  /** Relative path; `''` is the target itself. */
  path: string
  parent: Folder | null
  /** Whether the target already contains it. */
  exists: boolean
  /** The item of the directory itself, if the archive has one. */
  item: Item | null
}

/** The kind of entry that the target already has at the path of an item. */
export type Existing = 'none' | 'file' | 'symlink'

/** The items of an extraction in relation to their target. */
export interface Plan {
  folders: readonly Folder[]
  /** The folder of each item, and the existing entry at its path (`existing`). A directory always has `none`. */
  folderOf: readonly Folder[]
  existing: readonly Existing[]
  /** The refusals of entries in the way that may give way, by their paths. For the rest of the plan they do not exist. */
  inTheWay: ReadonlyMap<string, Refusal>
}

/**
 * Makes the plan. Refuses (`conflict`): special_file_in_the_way, other_file_system.
 */
export function planTarget(disk: Disk, root: HeldDirectory, items: readonly Item[]): Plan {
  const held = holdFolders(disk, root)
  const inTheWay = new Map<string, Refusal>()
  const onConflict: OnConflict = (path, refusal) => {
    if (!mayGiveWay(refusal)) throw refusal
    inTheWay.set(path, refusal)
  }
  try {
    return { ...planIn({ disk, root, held, onConflict }, items), inTheWay }
  } finally {
    held.close()
  }
}

/** Called with an entry that is in the way, and its refusal. If it returns, the entry counts as missing. */
export type OnConflict = (path: string, refusal: Refusal) => void

/** What a search for folders needs. */
export interface FolderNeeds {
  disk: Disk
  root: HeldDirectory
  held: Folders
  onConflict: OnConflict
}

/** Finds folders. What is in their way is passed to `onConflict`. */
export function findFolders({ disk, root, held, onConflict }: FolderNeeds) {
  const { dev: device, size: topBytes } = statHeld(disk, root)
  const top: Known = { path: '', parent: null, exists: true, item: null, ownBytes: topBytes, itemCount: 0 }
  const byPath = new Map([['', top]])

  function find(path: string): Known {
    const known = byPath.get(path)
    if (known !== undefined) return known
    const parent = find(parentOf(path))
    const ownBytes = parent.exists ? directoryBytes(path) : null
    const found: Known = { path, parent, exists: ownBytes !== null, item: null, ownBytes: ownBytes ?? 0, itemCount: 0 }
    byPath.set(path, found)
    return found
  }

  function directoryBytes(path: string): number | null {
    const stats = disk.lstatSync(held.place(path), { throwIfNoEntry: false })
    if (stats === undefined) return null
    const refusal = refuseDirectory(path, stats)
    if (refusal === null) return stats.size
    onConflict(path, refusal)
    return null
  }

  function refuseDirectory(path: string, stats: Stats): Refusal | null {
    if (stats.isSymbolicLink()) return throughLink(path)
    if (!stats.isDirectory()) {
      return conflict('file_in_the_way', `"${path}" is a directory in the archive, but a file in the target`)
    }
    if (stats.dev === device) return null
    const why = 'is on another file system, and files cannot be moved there in one step'
    return conflict('other_file_system', `"${path}" in the target ${why}`)
  }

  return {
    /** Returns the folder at a path. `onConflict` gets what is in its way, once. */
    find,
    all: (): Folder[] => [...byPath.values()]
  }
}

function planIn(needs: FolderNeeds, items: readonly Item[]): Omit<Plan, 'inTheWay'> {
  const folders = findFolders(needs)
  const folderOf = items.map(item => {
    const own = item.kind === 'directory' ? folders.find(item.path) : null
    if (own !== null) own.item = item
    const within = (own?.parent as Known | undefined) ?? folders.find(parentOf(item.path))
    within.itemCount++
    return within
  })
  const lookUp = createLookUp(needs)
  const existing = items.map(({ path, kind }, index): Existing => {
    const within = folderOf[index] as Known
    return kind !== 'directory' && within.exists ? lookUp(path, within) : 'none'
  })
  return { folders: folders.all(), folderOf, existing }
}

/** A folder with the figures that decide how its items are looked up. */
export interface Known extends Folder {
  parent: Known | null
  /** Size of an existing directory as in stat. It grows with the number of names in it. */
  ownBytes: number
  itemCount: number
}

/** Directories with fewer items are not listed: each item is looked up by itself. */
const minListedItems = 8
/** A directory with more bytes per item contains far more names than the items. It is not listed either. */
const maxBytesPerItem = 512

/**
 * Returns a function that looks up the existing entry at a path. Listing a directory once costs less than looking up
 * each of its files. A name that is not in the list is looked up all the same, because a file system may find it under
 * another spelling (`Logo.png`, `logo.png`). measured: bench/extract
 */
function createLookUp({ disk, held, onConflict }: FolderNeeds): (path: string, within: Known) => Existing {
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
    onConflict(path, inTheWay(path, found))
    return 'none'
  }
}

/** Returns the refusal of an entry that is neither a file nor a link, at the path of an item. */
export function inTheWay(path: string, found: Pick<Stats, 'isDirectory'>): Refusal {
  return found.isDirectory()
    ? conflict('directory_in_the_way', `"${path}" is a file in the archive, but a directory in the target`)
    : conflict('special_file_in_the_way', `"${path}" in the target is neither a file nor a directory`)
}

function conflict(code: string, reason: string): Refusal {
  return new Refusal('conflict', code, `Nothing was changed: ${reason}`)
}

/*
 * The findings about each item during staging, in packed form: 200,000 objects would take several times the memory.
 *
 *   offset  bytes
 *        0      1  outcome: 0 pending, 1 staged, 2 unchanged, 3 unchanged except for its time, 4 kept: edited, left as it is
 *        1      1  existing entry of the target: 0 none, 1 a file, 2 a symbolic link
 *        2      1  1 if the existing entry has another owner or group than the new one
 *        4      4  mode of the new entry, with the file type
 *        8      4  mode of the existing entry
 *       12      4  group of the new entry
 *       16      8  size of the existing entry, a double
 *       24     32  SHA-256 of the new entry
 *       56     32  SHA-256 of the existing entry
 *       88      8  modification time of the existing entry in milliseconds, a double
 *       96      8  modification time of the new entry in milliseconds, a double
 *      104      8  inode of the new entry, a double
 *      112      4  owner of the existing entry
 *      116      4  group of the existing entry
 *      120      8  time of the last change of the inode of an unchanged entry in milliseconds, a double; NaN if it is unknown
 */

const recordBytes = 128
const existingCodes: readonly Existing[] = ['none', 'file', 'symlink']

/** The result of staging an item. */
export type Outcome = 'pending' | 'staged' | 'unchanged' | 'other_time' | 'kept'
const outcomeCodes: readonly Outcome[] = ['pending', 'staged', 'unchanged', 'other_time', 'kept']

/** Size, mode, group and SHA-256 of an entry. */
export interface Digest {
  size: number
  /** Mode with the file type, as in stat. */
  mode: number
  /** The number of the group. */
  gid: number
  sha256: Uint8Array
}

/** The new entry of an item. */
export interface Placed extends Pick<Digest, 'mode' | 'gid' | 'sha256'> {
  /** Modification time in milliseconds since 1970. */
  mtimeMs: number
  ino: number
  /** When its inode was last changed, if it stays as it is; absent if that is unknown. */
  ctimeMs?: number
  /** Of a staged entry. */
  owner?: FileOwner
}

/** One record for each item, by the index of the item. */
export interface Records {
  /** The memory of the records, to be shared with another thread. */
  readonly memory: readonly SharedArrayBuffer[]
  existing(index: number): Existing
  setExisting(index: number, existing: Existing): void
  outcome(index: number): Outcome
  /** Records the outcome. `placed` is the new entry; its mode includes the file type. */
  settle(index: number, outcome: Outcome, placed: Placed): void
  /** Records that the existing entry, or its absence, stays as it is. */
  keep(index: number): void
  /** Records the existing entry, its modification time in milliseconds since 1970, and its owner. */
  setBefore(index: number, before: Digest, stats: FileOwner & { mtimeMs: number }): void
  /** Returns the modification time of the existing entry. */
  timeBeforeMs(index: number): number
  /** Returns the owner of an existing entry that is replaced by one of another owner or group; otherwise null. */
  ownerBefore(index: number): FileOwner | null
  /** Returns the modification time of the new entry in milliseconds since 1970. */
  mtimeMs(index: number): number
  /** Returns when the inode of an unchanged entry was last changed; NaN if that is unknown. */
  ctimeMs(index: number): number
  /** Makes an item pending again. */
  reopen(index: number): void
  /** Returns the inode of the new entry. */
  ino(index: number): number
  mode(index: number): number
  /** Returns the group of the new entry. */
  gid(index: number): number
  sha256(index: number): Buffer
  before(index: number): Digest | null
}

/** Number of records in a block: the C library keeps much larger ones, and their neighbours, when they are freed. */
const blockRecords = 4096

/** Creates records for `count` items, all of them pending. */
export function createRecords(count: number): Records {
  const blocks = Array.from({ length: Math.ceil(count / blockRecords) }, (_, block) =>
    Math.min(blockRecords, count - block * blockRecords)
  )
  return recordsIn(blocks.map(records => new SharedArrayBuffer(records * recordBytes)))
}

/**
 * Returns the records of another thread. Each thread must write only its own items, and must receive a message from the
 * other before it reads the other's records.
 */
export function recordsIn(memory: readonly SharedArrayBuffer[]): Records {
  const blocks = memory.map(block => ({ bytes: Buffer.from(block), view: new DataView(block) }))
  const bytesOf = (index: number): Buffer => (blocks[Math.floor(index / blockRecords)] as (typeof blocks)[number]).bytes
  const viewOf = (index: number): DataView => (blocks[Math.floor(index / blockRecords)] as (typeof blocks)[number]).view
  const at = (index: number): number => (index % blockRecords) * recordBytes
  const ownerAt = (index: number): FileOwner => {
    return { uid: viewOf(index).getUint32(at(index) + 112), gid: viewOf(index).getUint32(at(index) + 116) }
  }
  return {
    memory,
    existing: index => existingCodes[bytesOf(index)[at(index) + 1] as number] as Existing,
    setExisting: (index, existing) => {
      bytesOf(index)[at(index) + 1] = existingCodes.indexOf(existing)
    },
    outcome: index => outcomeCodes[bytesOf(index)[at(index)] as number] as Outcome,
    settle(index, outcome, { mode, gid, sha256, mtimeMs, ino, ctimeMs = Number.NaN, owner }) {
      viewOf(index).setFloat64(at(index) + 120, ctimeMs)
      viewOf(index).setUint32(at(index) + 4, mode)
      viewOf(index).setFloat64(at(index) + 96, mtimeMs)
      viewOf(index).setFloat64(at(index) + 104, ino)
      viewOf(index).setUint32(at(index) + 12, gid)
      bytesOf(index).set(sha256, at(index) + 24)
      const before = ownerAt(index)
      const isOther = owner !== undefined && (owner.uid !== before.uid || owner.gid !== before.gid)
      bytesOf(index)[at(index) + 2] = isOther ? 1 : 0
      bytesOf(index)[at(index)] = outcomeCodes.indexOf(outcome)
    },
    keep(index) {
      bytesOf(index)[at(index)] = outcomeCodes.indexOf('kept')
    },
    setBefore(index, before, { mtimeMs, uid, gid }) {
      viewOf(index).setFloat64(at(index) + 88, mtimeMs)
      viewOf(index).setUint32(at(index) + 8, before.mode)
      viewOf(index).setUint32(at(index) + 112, uid)
      viewOf(index).setUint32(at(index) + 116, gid)
      viewOf(index).setFloat64(at(index) + 16, before.size)
      bytesOf(index).set(before.sha256, at(index) + 56)
    },
    timeBeforeMs: index => viewOf(index).getFloat64(at(index) + 88),
    ownerBefore: index =>
      bytesOf(index)[at(index) + 1] !== 0 && bytesOf(index)[at(index) + 2] === 1 ? ownerAt(index) : null,
    mtimeMs: index => viewOf(index).getFloat64(at(index) + 96),
    ctimeMs: index => viewOf(index).getFloat64(at(index) + 120),
    reopen(index) {
      bytesOf(index)[at(index)] = outcomeCodes.indexOf('pending')
    },
    ino: index => viewOf(index).getFloat64(at(index) + 104),
    mode: index => viewOf(index).getUint32(at(index) + 4),
    gid: index => viewOf(index).getUint32(at(index) + 12),
    sha256: index => bytesOf(index).subarray(at(index) + 24, at(index) + 56),
    before(index) {
      if (bytesOf(index)[at(index) + 1] === 0) return null
      return {
        size: viewOf(index).getFloat64(at(index) + 16),
        mode: viewOf(index).getUint32(at(index) + 8),
        gid: viewOf(index).getUint32(at(index) + 116),
        sha256: bytesOf(index).subarray(at(index) + 56, at(index) + 88)
      }
    }
  }
}
