/*
 * Owner and permissions of a file that is kept aside. A script of the project may change them with `chown -R` or
 * `chmod -R` in the target, and the file has the earlier ones when it is put back. The journal names the inode, so no other
 * file is given away.
 */

import type { Stats } from 'node:fs'
import type { EarlierFile, FileOwner } from '../../model/manifest.js'
import { hasCode, Refusal } from '../../base/errors.js'
import { parentOf } from '../../base/files.js'
import { type Disk, openRegular } from './disk.js'
import { setIdBits } from './ownership.js'
import type { Folders } from './held.js'

/** What a file had when it was kept aside. */
export interface KeptOwner {
  /** Permission bits. */
  mode: number
  uid: number
  gid: number
  ino: number
}

const permissionBits = 0o7777

/** Returns what an entry has now. */
export function keptOwnerOf({ mode, uid, gid, ino }: Stats): KeptOwner {
  return { mode: mode & permissionBits, uid, gid, ino }
}

/** Gives a kept file, or a link, its owner and permissions again. Only root can restore an owner; only root could change it. */
export function restoreOwner(disk: Disk, place: string, kept: KeptOwner | undefined): void {
  const found = kept === undefined ? undefined : disk.lstatSync(place, { throwIfNoEntry: false })
  if (kept === undefined || found?.ino !== kept.ino) return
  const isOther = found.uid !== kept.uid || found.gid !== kept.gid
  if (found.isSymbolicLink()) {
    if (isOther) permitted(() => disk.lchownSync(place, kept.uid, kept.gid))
  } else if (found.isFile() && (isOther || (found.mode & permissionBits) !== kept.mode)) restoreFile(disk, place, kept)
}

function restoreFile(disk: Disk, place: string, { mode, uid, gid, ino }: KeptOwner): void {
  let opened: ReturnType<typeof openRegular>
  try {
    opened = openRegular(disk, place)
  } catch (error) {
    if (!hasCode(error, 'EACCES', 'EPERM')) throw error
    // The script took away the permission to read it. Nobody else can enter the staging directory.
    return permitted(() => disk.chmodSync(place, mode))
  }
  if (opened === null) return
  const { fd, stats } = opened
  try {
    if (stats.ino !== ino) return
    // A new owner takes the setuid bits away, so the permissions come second.
    if (stats.uid !== uid || stats.gid !== gid) permitted(() => disk.fchownSync(fd, uid, gid))
    permitted(() => disk.fchmodSync(fd, mode))
  } finally {
    disk.closeSync(fd)
  }
}

/** Returns the owner of an entry, to be kept in a manifest; undefined if it is the user and the group of this process. */
export function otherOwner({ uid, gid }: FileOwner): FileOwner | undefined {
  const isOwn = uid === process.geteuid?.() && gid === process.getegid?.()
  return isOwn || process.geteuid === undefined ? undefined : { uid, gid }
}

/** Returns the mode of an entry, without the bits that let it run with the rights of another owner or group. */
export function modeToKeep(stats: Pick<Stats, 'mode' | 'uid' | 'gid'>): number {
  return otherOwner(stats) === undefined ? stats.mode : stats.mode & ~setIdBits
}

/** Leaves the user as it is (chown(2)). */
const sameUser = -1

/** An owner to be given; without `uid`, the group alone. */
export type GivenOwner = Pick<FileOwner, 'gid'> & Partial<FileOwner>

/** Gives an open file its owner. Only root can give a file away; a user can choose among the groups that it is in. */
export function giveOwner(disk: Disk, fd: number, { uid = sameUser, gid }: GivenOwner): void {
  permitted(() => disk.fchownSync(fd, uid, gid))
}

/** Does the same for a directory or a symbolic link. */
export function giveOwnerAt(disk: Disk, place: string, { uid = sameUser, gid }: GivenOwner): void {
  permitted(() => disk.lchownSync(place, uid, gid))
}

/** Returns the group of a file or directory that is removed, unless a new one would have the same. */
export function otherGroup(stats: Stats): Pick<EarlierFile, 'gid'> {
  const own = process.getegid?.() ?? stats.gid
  return stats.gid === own || stats.isSymbolicLink() ? {} : { gid: stats.gid }
}

function permitted(change: () => void): void {
  try {
    change()
  } catch (error) {
    if (!hasCode(error, 'EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP', 'EROFS')) throw error
  }
}

/*
 * Paths that change between file, directory and link. What is in the way of an entry of the archive gives way if svc put
 * it there, and is not edited on the server: a file or a link where the archive has a directory, or a directory where it
 * has a file or a link, if nothing in it belongs to anybody else. It is removed like a file that a prune removes, but
 * before anything is put in place.
 *
 * A plan (compare.ts) and a deployment (reckon.ts) both ask here.
 */

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
