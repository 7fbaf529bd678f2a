/*
 * Items on their way into the target: written into its staging directory (staging.ts), where no other user can look or
 * exchange anything. So below staging, and only there, files are named by a path of several names.
 *
 * An item whose contents, mode and time are what the target has already is not staged at all: the file is left as it
 * is, inode and caches included, and the record says so. Where only the time differs, as after a build that wrote the
 * same again, nothing is staged either: the commit sets the time (a quarter of what replacing costs: bench/extract).
 * What the target has is read from held folders (folders.ts), never through a link, and only from regular files.
 *
 * Permission bits of the archive are set exactly, past the umask, as `unzip` does; where the archive has none, the
 * umask decides. Directories keep the owner's rwx whatever the archive says, or the next deployment (and the undo of
 * this one) could not get in.
 */
import { createHash } from 'node:crypto'
import { fileSeconds } from '../base/file-time.js'
import { writeFully, type Disk } from './disk.js'
import { createDigester, sha256 } from './digest.js'
import { changedMeanwhile, type Folders } from './folders.js'
import type { Item, Plan } from './plan.js'
import type { Records } from './record.js'

const fileType = 0o100000
const linkType = 0o120000
/** Archives have whole seconds or milliseconds, and what was set from a double is a little off. */
export const sameTimeMs = 2

export interface Stage {
  /** Stages a file whose contents are all there, unless the target has the same. */
  file(index: number, contents: Buffer): void
  /** Stages a file piece by piece; `finish` or `drop` must follow. */
  largeFile(index: number): { write(piece: Buffer): void; finish(): void; drop(): void }
  /** Stages a symbolic link. */
  link(index: number, to: string): void
}

export interface StageNeeds {
  disk: Disk
  /** The target's. */
  folders: Folders
  /** How to name the staging directory in calls. */
  staging: string
  items: readonly Item[]
  records: Records
  umask: number
}

/** Stages items of one thread; `makeStaging` must have been called. */
export function createStage({ disk, folders, staging, items, records, umask }: StageNeeds): Stage {
  const digester = createDigester(disk)
  /** Whose files these are; where nobody can say (Windows), a file is replaced to change its time. */
  const user = process.geteuid?.()

  /**
   * Digests what the target has where the item belongs. Where it needs no staging, settles the item: nothing differs,
   * or only the time does, and the file is ours alone to set it on.
   */
  function isThere(index: number, item: Item, digest: Uint8Array): boolean {
    const existing = records.existing(index)
    if (existing === 'none') return false
    const place = folders.place(item.path)
    const file = existing === 'file' ? digester.file(place) : null
    const before = file ?? (existing === 'symlink' ? digester.link(place) : null)
    if (before === null) throw changedMeanwhile(item.path, 'was changed')
    records.setBefore(index, before)
    if ((existing === 'symlink') !== (item.kind === 'symlink') || Buffer.compare(before.sha256, digest) !== 0) {
      return false
    }
    if (item.kind === 'file') {
      if (item.mode !== null && item.mode !== (before.mode & 0o7777)) return false
      const stats = item.mtimeMs === null ? null : file?.stats ?? null
      if (stats !== null && Math.abs(stats.mtimeMs - (item.mtimeMs as number)) >= sameTimeMs) {
        if (stats.uid !== user || stats.nlink !== 1) return false
        records.setTimeBefore(index, stats.mtimeMs)
        records.settle(index, 'other_time', before.mode, digest)
        return true
      }
    }
    records.settle(index, 'unchanged', before.mode, digest)
    return true
  }

  function open(item: Item): number {
    return disk.openSync(`${staging}/files/${item.path}`, 'wx', item.mode ?? 0o666)
  }

  function finish(fd: number, item: Item): void {
    if (item.mode !== null && (item.mode & umask) !== 0) disk.fchmodSync(fd, item.mode)
    if (item.mtimeMs !== null) {
      const time = fileSeconds(item.mtimeMs)
      disk.futimesSync(fd, time, time)
    }
  }

  function modeOf(item: Item): number {
    return fileType | (item.mode ?? 0o666 & ~umask)
  }

  return {
    file(index, contents) {
      const item = items[index] as Item
      const digest = sha256(contents)
      if (isThere(index, item, digest)) return
      const fd = open(item)
      try {
        writeFully(disk, fd, contents)
        finish(fd, item)
      } finally {
        disk.closeSync(fd)
      }
      records.settle(index, 'staged', modeOf(item), digest)
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
          try {
            finish(fd, item)
          } finally {
            disk.closeSync(fd)
          }
          const digest = hash.digest()
          if (isThere(index, item, digest)) disk.unlinkSync(`${staging}/files/${item.path}`)
          else records.settle(index, 'staged', modeOf(item), digest)
        },
        drop: () => disk.closeSync(fd)
      }
    },
    link(index, to) {
      const item = items[index] as Item
      const path = `${staging}/files/${item.path}`
      const digest = sha256(Buffer.from(to))
      if (isThere(index, item, digest)) return
      disk.symlinkSync(to, path)
      if (item.mtimeMs !== null) disk.lutimesSync(path, fileSeconds(item.mtimeMs), fileSeconds(item.mtimeMs))
      records.settle(index, 'staged', linkType | 0o777, digest)
    }
  }
}

/**
 * Gives the directories that will be new their modes and times, children first, once everything lies in them. `otherMode`
 * is for those that the archive does not list; null: they stay as they were made.
 */
export function sealFolders(disk: Disk, staging: string, plan: Plan, otherMode: number | null = null): void {
  for (const { path, exists, item } of [...plan.folders].reverse()) {
    if (exists) continue
    const staged = `${staging}/files/${path}`
    const mode = item === null ? otherMode : item.mode
    if (mode !== null) disk.chmodSync(staged, mode | 0o700)
    if (item !== null && item.mtimeMs !== null) disk.utimesSync(staged, fileSeconds(item.mtimeMs), fileSeconds(item.mtimeMs))
  }
}
