/*
 * The staging directory of a deployment, on the file system of the target.
 *
 *   <target>/.svc-staging-<id>/        mode 0700, owned by svc's user
 *     files/<path>                     entries that will be moved into place; the tree mirrors the target
 *     aside/<n>                        replaced entries, kept until the end (commit.ts)
 *     <mark>                           an empty directory whose random name only the undo journal knows
 *
 * No other user can enter it. But the owner of the target can rename it and put something else in its place. So it is
 * held from the moment it is created. Nothing is written to it before svc has verified that the held directory is the
 * one that it created: it belongs to svc's user, no other user may enter it, it is on the target's file system, and it
 * is empty. From then on neither its path (`HeldDirectory.path`) nor any path below it can lead elsewhere.
 *
 * Later it is found by its name, which proves nothing by itself: it must contain the mark, and be either the directory
 * with the inode that the journal names, or one that belongs to the user that wrote the journal and is closed to other
 * users. The inode alone could not do: some file systems (FUSE, FAT) assign another one after they have dropped the
 * directory from their cache, or were mounted again. Owner and mode alone could not do either: a script of the project
 * changes both with `chown -R` or `chmod -R` in the target.
 */

import { createHash, randomBytes } from 'node:crypto'
import { fileSeconds, stagingPrefix } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { sha256 } from '../../base/digests.js'
import { fileType, linkMode } from '../../base/shared/tree-text.js'
import { type Disk, writeFully } from './disk.js'
import {
  changedMeanwhile,
  type Folders,
  type HeldDirectory,
  holdChild,
  identityOf,
  removeContents,
  statHeld
} from './held.js'
import type { Folder, Item, Placed, Plan, Records } from './plan.js'
import { createDigester } from './found-entry.js'
import { type GivenOwner, giveOwner, giveOwnerAt } from './kept-owner.js'

/** Returns the name of a deployment's staging directory in its target. */
export const stagingName = (deployId: string): string => stagingPrefix + deployId

/** A held staging directory. */
export interface Staging extends HeldDirectory {
  readonly mark: string
}

/** The staging directory of an earlier extraction. The mark is null if its journal does not contain one. */
export interface FoundStaging extends HeldDirectory {
  readonly mark: string | null
  /** Its name, if somebody has renamed it in the target. */
  readonly name?: string
}

const othersBits = 0o077
const markBytes = 16

/**
 * Creates the staging directory, empty except for its mark. Refuses (`conflict`): staging_in_the_way if the name is
 * taken, target_changed if the target was removed, and staging_not_ours if the directory with that name is not the one
 * that was created.
 */
export function makeStaging(disk: Disk, root: HeldDirectory, deployId: string): Staging {
  const name = stagingName(deployId)
  try {
    disk.mkdirSync(`${root.path}/${name}`, 0o700)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT')
      throw new Refusal('conflict', 'target_changed', 'Nothing was changed: the target was removed in the meantime')
    if (code !== 'EEXIST') throw error
    throw new Refusal(
      'conflict',
      'staging_in_the_way',
      `Nothing was changed: the target already contains "${name}". Remove it and deploy again`
    )
  }
  const held = holdMade(disk, root, name)
  try {
    if (!isFresh(disk, root, held)) throw notOurs(name)
    const mark = randomBytes(markBytes).toString('hex')
    disk.mkdirSync(`${held.path}/${mark}`, 0o700)
    return { ...held, mark }
  } catch (error) {
    held.close()
    throw gone.has((error as NodeJS.ErrnoException).code ?? '') ? notOurs(name) : error
  }
}

/** Error codes for a directory that was removed or exchanged after it was created. */
const gone = new Set(['ENOENT', 'ENOTDIR', 'ELOOP'])

function holdMade(disk: Disk, root: HeldDirectory, name: string): HeldDirectory {
  try {
    return holdChild(disk, root, name)
  } catch (error) {
    throw gone.has((error as NodeJS.ErrnoException).code ?? '') ? notOurs(name) : error
  }
}

function isFresh(disk: Disk, root: HeldDirectory, held: HeldDirectory): boolean {
  const { uid, mode, dev } = statHeld(disk, held)
  if (process.geteuid !== undefined && (uid !== process.geteuid() || (mode & othersBits) !== 0)) return false
  return dev === statHeld(disk, root).dev && disk.readdirSync(held.path).length === 0
}

function notOurs(name: string): Refusal {
  return new Refusal(
    'conflict',
    'staging_not_ours',
    `Nothing was changed: "${name}", which svc just created in the target, does not belong to the user that svc ` +
      'runs as. Either another user replaced it, or the file system assigns files to another user'
  )
}

/**
 * Creates those folders of the plan in a staging directory that are new, or that get a file or a link that `isStaged`.
 * Called again, it creates the others that are needed now.
 */
export function furnishStaging(
  disk: Disk,
  { path: staging }: HeldDirectory,
  { plan, isStaged, made }: { plan: Plan; isStaged(index: number): boolean; made: Set<Folder> }
): void {
  const needed = new Set<Folder>()
  const need = (folder: Folder | null): void => {
    for (let each = folder; each !== null && !needed.has(each); each = each.parent) needed.add(each)
  }
  plan.folderOf.forEach((folder, index) => {
    if (isStaged(index)) need(folder)
  })
  for (const folder of plan.folders) if (!folder.exists || folder.parent === null) need(folder)
  if (made.size === 0) disk.mkdirSync(`${staging}/aside`, 0o700)
  for (const folder of plan.folders) {
    if (!needed.has(folder) || made.has(folder)) continue
    const { path } = folder
    disk.mkdirSync(path === '' ? `${staging}/files` : `${staging}/files/${path}`)
    made.add(folder)
  }
}

/** The signs by which the staging directory of a journal is recognized. */
export interface StagingSigns {
  deployId: string
  /** The user that wrote the journal. */
  user: number
  /** Null if the journal has no mark, because of a crash before it was written. */
  mark: string | null
  /** The device and inode of the directory; null or absent in journals of earlier versions. */
  place?: { staging: string } | null
}

/**
 * Holds the staging directory of an earlier extraction. Returns null if it was removed, or if the directory with its
 * name is another one.
 */
export function findStaging(
  disk: Disk,
  root: HeldDirectory,
  { deployId, user, mark, place }: StagingSigns
): FoundStaging | null {
  const known = stagingName(deployId)
  const name = place == null ? known : (nameOf(disk, root, place.staging) ?? known)
  let held: HeldDirectory
  try {
    held = holdChild(disk, root, name)
  } catch (error) {
    if (gone.has((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
  try {
    const stats = statHeld(disk, held)
    const isOwn = process.geteuid === undefined || (stats.uid === user && (stats.mode & othersBits) === 0)
    // It is empty if its removal was interrupted.
    const isEmpty = isOwn && disk.readdirSync(held.path).length === 0
    if (!isOwn && mark !== null && place?.staging === identityOf(disk, held)) {
      closeAgain(disk, held)
      if (hasMark(disk, held, mark)) return { ...held, mark, name }
    }
    if (isOwn && (mark === null || isEmpty || hasMark(disk, held, mark))) return { ...held, mark, name }
  } catch (error) {
    held.close()
    throw error
  }
  held.close()
  return null
}

/** Returns the name that a directory has in the target now; null if it is not there. */
function nameOf(disk: Disk, root: HeldDirectory, identity: string): string | null {
  const isIt = (name: string): boolean => {
    const stats = disk.lstatSync(`${root.path}/${name}`, { throwIfNoEntry: false })
    return stats?.isDirectory() === true && `${stats.dev}:${stats.ino}` === identity
  }
  return disk.readdirSync(root.path).find(isIt) ?? null
}

/** Gives the directories that svc works in the mode that svc gave them, after a script has changed it. */
function closeAgain(disk: Disk, held: HeldDirectory): void {
  disk.chmodSync(held.path, 0o700)
  for (const name of ['aside', 'files']) {
    let child: HeldDirectory
    try {
      child = holdChild(disk, held, name)
    } catch (error) {
      if (gone.has((error as NodeJS.ErrnoException).code ?? '')) continue
      throw error
    }
    try {
      disk.chmodSync(child.path, 0o700)
    } finally {
      child.close()
    }
  }
}

function hasMark(disk: Disk, held: HeldDirectory, mark: string): boolean {
  return disk.lstatSync(`${held.path}/${mark}`, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/**
 * Error codes when another entry has the name of the emptied directory, which was renamed. The directory stays where it
 * is.
 */
const taken = new Set(['ENOENT', 'ENOTEMPTY', 'EEXIST', 'ENOTDIR'])

/**
 * Removes a held staging directory with all its contents. The mark is removed last, so that the directory can be
 * recognized until then.
 */
export function removeStaging(
  disk: Disk,
  { root, staging, deployId }: { root: HeldDirectory; staging: Staging | FoundStaging; deployId: string }
): void {
  removeContents(disk, staging, staging.mark)
  removeContents(disk, staging)
  const name = ('name' in staging && staging.name) || stagingName(deployId)
  try {
    disk.rmdirSync(`${root.path}/${name}`)
  } catch (error) {
    if (!taken.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

/*
 * Stages items: writes them into the staging directory of the target, which no other user can read or
 * change. So below staging, and only there, files are addressed by paths of several names.
 *
 * An item whose contents, mode and time the target already has is not staged. The file stays as it is, inode and caches
 * included, and the record says so. If only the time differs, as after a build that produced the same file again,
 * nothing is staged either: the commit sets the time (a quarter of the cost of replacing: bench/extract). Existing
 * entries of the target are read from held folders (held.ts), never through a link, and only if they are regular
 * files.
 *
 * Permission bits of the archive are set exactly, ignoring the umask, as `unzip` does. If the archive lacks them, the
 * umask applies. Directories keep the owner's rwx whatever the archive says. Otherwise the next deployment, and the
 * undo of this one, could not enter them.
 */

/** Stages items by their indexes. */
export type Stage = ReturnType<typeof createStage>

export interface StageNeeds {
  disk: Disk
  /** The folders of the target. */
  folders: Folders
  /** The path of the staging directory in calls (held.ts). */
  staging: string
  items: readonly Item[]
  records: Records
  umask: number
  /** Times that differ by less than this are the same. */
  toleranceMs: number
  /** Called before each piece of an existing file that is read. Throws if the work must be abandoned. */
  check?: () => void
}

/** Creates a stage for one thread. `makeStaging` must have been called. */
export function createStage(needs: StageNeeds) {
  const { disk, folders, staging, items, records, toleranceMs } = needs
  const digester = createDigester(disk, needs.check)
  /** The user that owns the files of svc. If it is unknown (Windows), a file is replaced to change its time. */
  const user = process.geteuid?.()

  /**
   * Digests the existing entry of the target for an item. If nothing differs, or if only the time differs and svc alone
   * owns the file and can set it, settles the item and returns true: it needs no staging.
   */
  function needsNoStaging(index: number, item: Item, digest: Uint8Array): boolean {
    const existing = records.existing(index)
    if (existing === 'none') return false
    const place = folders.place(item.path)
    const before = existing === 'file' ? digester.file(place) : digester.link(place)
    if (before === null) throw changedMeanwhile(item.path, 'was changed')
    const { stats } = before
    records.setBefore(index, before, stats)
    const { mode, gid } = before
    const found = { mode, gid, sha256: digest, mtimeMs: stats.mtimeMs, ino: stats.ino }
    if ((existing === 'symlink') !== (item.kind === 'symlink') || Buffer.compare(before.sha256, digest) !== 0) {
      return false
    }
    if (item.kind === 'file') {
      if (item.mode !== null && item.mode !== (mode & 0o7777)) return false
      if (item.gid !== undefined && item.gid !== gid) return false
      if (item.mtimeMs !== null && Math.abs(stats.mtimeMs - item.mtimeMs) >= toleranceMs) {
        if (stats.uid !== user || stats.nlink !== 1) return false
        records.settle(index, 'other_time', { ...found, mtimeMs: item.mtimeMs })
        return true
      }
    }
    records.settle(index, 'unchanged', { ...found, ctimeMs: stats.ctimeMs })
    return true
  }

  function open(item: Item): number {
    return disk.openSync(`${staging}/files/${item.path}`, 'wx', item.mode ?? 0o666)
  }

  return {
    /** Stages a file whose contents are in memory, unless the target has the same. */
    file(index: number, contents: Buffer): void {
      const item = items[index] as Item
      const digest = sha256(contents)
      if (needsNoStaging(index, item, digest)) return
      const fd = open(item)
      try {
        writeFully(disk, fd, contents)
        records.settle(index, 'staged', { ...finish(needs, fd, item), sha256: digest })
      } finally {
        disk.closeSync(fd)
      }
    },

    /** Stages a file piece by piece. The caller must then call `finish` or `drop`. */
    largeFile(index: number): { write(piece: Buffer): void; finish(): void; drop(): void } {
      const item = items[index] as Item
      const hash = createHash('sha256')
      const fd = open(item)
      return {
        write(piece) {
          hash.update(piece)
          writeFully(disk, fd, piece)
        },
        finish() {
          let placed: Omit<Placed, 'sha256'>
          try {
            placed = finish(needs, fd, item)
          } finally {
            disk.closeSync(fd)
          }
          const digest = hash.digest()
          if (needsNoStaging(index, item, digest)) disk.unlinkSync(`${staging}/files/${item.path}`)
          else records.settle(index, 'staged', { ...placed, sha256: digest })
        },
        drop: () => disk.closeSync(fd)
      }
    },

    /** Stages a symbolic link to `to`. */
    link(index: number, to: string): void {
      const item = items[index] as Item
      const path = `${staging}/files/${item.path}`
      const digest = sha256(Buffer.from(to))
      if (needsNoStaging(index, item, digest)) return
      disk.symlinkSync(to, path)
      if (item.owner !== undefined) giveOwnerAt(disk, path, item.owner)
      if (item.mtimeMs !== null) disk.lutimesSync(path, fileSeconds(item.mtimeMs), fileSeconds(item.mtimeMs))
      const { mtimeMs, ino, uid, gid } = disk.lstatSync(path)
      records.settle(index, 'staged', { mode: linkMode, gid, sha256: digest, mtimeMs, ino, owner: { uid, gid } })
    }
  }
}

/** Gives a written file its mode and time, and returns what is recorded about it. */
function finish({ disk, umask }: StageNeeds, fd: number, item: Item): Omit<Placed, 'sha256'> {
  // A new owner takes the setuid bits away, so the permissions come second.
  const owner = ownerOf(item)
  if (owner !== null) giveOwner(disk, fd, owner)
  if (item.mode !== null && (item.mode & umask) !== 0) disk.fchmodSync(fd, item.mode)
  if (item.mtimeMs !== null) {
    const time = fileSeconds(item.mtimeMs)
    disk.futimesSync(fd, time, time)
  }
  const { mtimeMs, ino, uid, gid } = disk.fstatSync(fd)
  return { mode: fileType | (item.mode ?? 0o666 & ~umask), gid, mtimeMs, ino, owner: { uid, gid } }
}

/** Returns the owner that an item gets, of which `gid` decides the group; null: that of the process. */
function ownerOf({ owner, gid = owner?.gid }: Item): GivenOwner | null {
  return gid === undefined ? null : { ...owner, gid }
}

/** Refuses (`unavailable`, not_permitted) staged files without the group that the policy says. */
export function checkGroups(items: readonly Item[], records: Records): void {
  for (const [index, { path, kind, gid }] of items.entries()) {
    if (kind !== 'file' || gid === undefined || records.gid(index) === gid) continue
    const sentence = `Nothing was changed: cannot give "${path}" the group ${gid}, as the policy says: permission denied`
    throw new Refusal('unavailable', 'not_permitted', sentence)
  }
}

/** How new directories are sealed. */
export interface SealOptions {
  /** The path of the staging directory in calls (held.ts). */
  staging: string
  /** The mode of directories that the archive does not list, or null to keep the mode that they were created with. */
  otherMode: number | null
  /** Their group; undefined to keep that of the process. */
  otherGroup?: number | undefined
}

const setgid = 0o2000

/** Gives the new directories their groups, modes and times, children first, after everything has been written into them. */
export function sealFolders(disk: Disk, plan: Plan, { staging, otherMode, otherGroup }: SealOptions): void {
  for (const { path, exists, item } of [...plan.folders].reverse()) {
    if (exists) continue
    const staged = `${staging}/files/${path}`
    const owner = item === null ? (otherGroup === undefined ? null : { gid: otherGroup }) : ownerOf(item)
    if (owner !== null) giveOwnerAt(disk, staged, owner)
    const mode = item === null ? otherMode : item.mode
    // What is made in a setgid directory is one, too: archives cannot know.
    if (mode !== null) disk.chmodSync(staged, mode | 0o700 | (disk.lstatSync(staged).mode & setgid))
    if (item !== null && item.mtimeMs !== null)
      disk.utimesSync(staged, fileSeconds(item.mtimeMs), fileSeconds(item.mtimeMs))
  }
}
