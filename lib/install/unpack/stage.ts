/*
 * Stages items: writes them into the staging directory of the target (staging.ts), which no other user can read or
 * change. So below staging, and only there, files are addressed by paths of several names.
 *
 * An item whose contents, mode and time the target already has is not staged. The file stays as it is, inode and caches
 * included, and the record says so. If only the time differs, as after a build that produced the same file again,
 * nothing is staged either: the commit sets the time (a quarter of the cost of replacing: bench/extract). Existing
 * entries of the target are read from held folders (folders.ts), never through a link, and only if they are regular
 * files.
 *
 * Permission bits of the archive are set exactly, ignoring the umask, as `unzip` does. If the archive lacks them, the
 * umask applies. Directories keep the owner's rwx whatever the archive says. Otherwise the next deployment, and the
 * undo of this one, could not enter them.
 */
import { createHash } from 'node:crypto'
import { fileSeconds } from '../../base/files.js'
import { Refusal } from '../../base/errors.js'
import { sha256 } from '../../base/digests.js'
import { fileType, linkMode } from '../../shared/tree-text.js'
import { writeFully, type Disk } from '../disk.js'
import { createDigester } from '../digest.js'
import { changedMeanwhile, type Folders } from '../folders.js'
import { giveOwner, giveOwnerAt, type GivenOwner } from '../kept-owner.js'
import type { Item, Plan } from '../plan.js'
import type { Placed, Records } from '../record.js'

/** Stages items by their indexes. */
export interface Stage {
  /** Stages a file whose contents are in memory, unless the target has the same. */
  file(index: number, contents: Buffer): void
  /** Stages a file piece by piece. The caller must then call `finish` or `drop`. */
  largeFile(index: number): { write(piece: Buffer): void; finish(): void; drop(): void }
  /** Stages a symbolic link to `to`. */
  link(index: number, to: string): void
}

/** What a stage needs. */
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
export function createStage(needs: StageNeeds): Stage {
  const { disk, folders, staging, items, records, umask, toleranceMs } = needs
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
    records.settle(index, 'unchanged', found)
    return true
  }

  function open(item: Item): number {
    return disk.openSync(`${staging}/files/${item.path}`, 'wx', item.mode ?? 0o666)
  }

  /** Gives a written file its mode and time, and returns what is recorded about it. */
  function finish(fd: number, item: Item): Omit<Placed, 'sha256'> {
    // A new owner takes the setuid bits away, so the permissions come second.
    const owner = ownerOf(item)
    if (owner !== null) giveOwner(disk, fd, owner)
    if (item.mode !== null && (item.mode & umask) !== 0) disk.fchmodSync(fd, item.mode)
    if (item.mtimeMs !== null) {
      const time = fileSeconds(item.mtimeMs)
      disk.futimesSync(fd, time, time)
    }
    const { mtimeMs, ino, uid, gid } = disk.fstatSync(fd)
    return { mode: modeOf(item), gid, mtimeMs, ino, owner: { uid, gid } }
  }

  function modeOf(item: Item): number {
    return fileType | (item.mode ?? 0o666 & ~umask)
  }

  return {
    file(index, contents) {
      const item = items[index] as Item
      const digest = sha256(contents)
      if (needsNoStaging(index, item, digest)) return
      const fd = open(item)
      try {
        writeFully(disk, fd, contents)
        records.settle(index, 'staged', { ...finish(fd, item), sha256: digest })
      } finally {
        disk.closeSync(fd)
      }
    },
    largeFile(index) {
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
            placed = finish(fd, item)
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
    link(index, to) {
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
