/*
 * Owner and permissions of a file that is kept aside. A script of the project may change them with `chown -R` or
 * `chmod -R` in the target, and the file has the earlier ones when it is put back. The journal names the inode, so no other
 * file is given away.
 */
import type { Stats } from 'node:fs'
import type { EarlierFile, FileOwner } from '../model/manifest.js'
import { hasCode } from '../base/errors.js'
import type { Disk } from './disk.js'
import { openRegular } from './regular.js'
import { setIdBits } from './unowned.js'

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
