/*
 * Makes the changes of a deployment survive a power cut: they are on disk before the journal says `done`.
 *
 *   before `ready`   the contents of staged files, and the new directories. A disk error that shows only now (no space
 *                    for written data, EIO) is met before anything is moved, and so is a cancel in the meantime.
 *   before `done`    the names: every directory in which something was moved.
 *
 * A few files are synced one by one. Many files are synced by one call for the whole file system (syncfs), which also
 * waits for data that other programs have written there. If that call is not available, each file is synced, several at
 * a time. Ten thousand small files take 0.1 to 0.3 s with one call, and 2.7 s one by one, three at a time. measured:
 * bench/extract
 *
 * Without the setting `durable_targets`, contents are left to the kernel, which writes them within half a minute. The
 * order that undo depends on is kept all the same: a journal on another disk must not be ahead of the target. File
 * systems with a journal of their own (ext4, xfs, btrfs) commit changes in order, so it is enough to sync the directory
 * that was changed last. On file systems in memory nothing is synced.
 *
 * Times of files whose contents stay are not synced; the next deployment sets them again.
 */
import { abreast, type Disk, fileSystemOf, notSyncable, syncDirectoryAsync, syncOpen } from './disk.js'
import { type HeldDirectory, holdFolders } from './held.js'

/**
 * Syncs the file system of a directory. Resolves with false if it could not. After an abort it may resolve later,
 * because the kernel does not interrupt a sync.
 */
export type SyncFileSystem = (directory: HeldDirectory, signal: AbortSignal) => Promise<boolean>

/** Everything that the syncs of one extraction need. */
export interface TargetSyncNeeds {
  disk: Disk
  root: HeldDirectory
  staging: HeldDirectory
  /** The setting `durable_targets`. */
  isDurable: boolean
  syncFileSystem: SyncFileSystem
  /** Throws if the extraction must be abandoned. */
  check(): void
}

/** A file in staging, with the mode that it must keep. */
export interface StagedFile {
  path: string
  mode: number
}

/** The syncs of one extraction. Each rejects if the disk fails, and soon after `check` throws. */
export type TargetSync = ReturnType<typeof createTargetSync>

/**
 * Above this number of files and directories, one call syncs all. The process that makes the call costs as much as
 * these.
 */
const maxOneByOne = 16
/** Interval at which `check` is called. */
const checkMs = 50

/** statfs(2) types of file systems in memory: tmpfs and ramfs. */
const inMemory = new Set([0x01021994, 0x858458f6])
/**
 * File systems whose syncfs(2) is known to reach the disk: ext2 to ext4, xfs, btrfs, f2fs, zfs, bcachefs, overlayfs.
 */
const syncsWhole = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1, 0xca451a4e, 0x794c7630])

/** Creates the syncs of one extraction. */
export function createTargetSync(needs: TargetSyncNeeds) {
  const { disk, root, staging, isDurable, check } = needs
  const type = fileSystemType(disk, root)
  if (type !== null && inMemory.has(type)) return { staged: async () => {}, moved: async () => {} }

  /** Syncs each item with `one`, or all of them with one call if that is cheaper and possible. */
  async function syncAll<T>(items: readonly T[], one: (item: T) => Promise<void>): Promise<void> {
    await unlessGivenUp(check, async signal => {
      const isWhole = items.length > maxOneByOne && type !== null && syncsWhole.has(type)
      if (isWhole && (await needs.syncFileSystem(staging, signal))) return
      await abreast(items, async item => {
        if (!signal.aborted) await one(item)
      })
    })
  }

  return {
    /** Called before the first rename: syncs staged files, new directories (children last), and staging itself. */
    async staged(files: readonly StagedFile[], directories: readonly string[]): Promise<void> {
      const place = (path: string): string => `${staging.path}/files/${path}`
      if (isDurable) {
        await syncAll([...files, ...directories], item =>
          typeof item === 'string' ? syncNames(disk, place(item)) : syncFile(disk, place(item.path), item.mode)
        )
      }
      await syncDirectoryAsync(disk, staging.path)
    },
    /**
     * Called after the last rename, with the directories of the target in which something was moved, the last one last.
     */
    async moved(directories: readonly string[]): Promise<void> {
      const folders = holdFolders(disk, root)
      try {
        await syncAll(isDurable ? directories : directories.slice(-1), path => syncNames(disk, folders.at(path)))
      } finally {
        folders.close()
      }
    }
  }
}

/** Returns the type of the file system as in statfs(2), or null if it is unknown. */
function fileSystemType(disk: Disk, { path }: HeldDirectory): number | null {
  return fileSystemOf(disk, path)?.type ?? null
}

/** Opens a file that svc made, to sync it. Works whatever the mode of the file is. */
function openToSync(disk: Disk, place: string, mode: number): number {
  // FlushFileBuffers needs a file that is open for writing.
  const flags = process.platform === 'win32' ? 'r+' : 'r'
  try {
    return disk.openSync(place, flags)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EACCES' && code !== 'EPERM') throw error
    disk.chmodSync(place, mode | 0o600)
    const fd = disk.openSync(place, flags)
    disk.fchmodSync(fd, mode)
    return fd
  }
}

async function syncFile(disk: Disk, place: string, mode: number): Promise<void> {
  await syncOpened(disk, 'fdatasync', openToSync(disk, place, mode))
}

/** Syncs the names in a directory. `place` is used before this function returns its promise. */
async function syncNames(disk: Disk, place: string): Promise<void> {
  if (process.platform === 'win32') return
  let fd: number
  try {
    fd = disk.openSync(place, 'r')
  } catch (error) {
    // Its owner lets svc write in it, but not read it. A journaling file system commits it together with the others.
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return
    throw error
  }
  await syncOpened(disk, 'fsync', fd).catch(error => {
    if (!notSyncable.has((error as NodeJS.ErrnoException).code ?? '')) throw error
  })
}

/** Asynchronous: a sync takes as long as the disk does, and the thread must notice an abort in the meantime. */
async function syncOpened(disk: Disk, call: 'fsync' | 'fdatasync', fd: number): Promise<void> {
  try {
    await syncOpen(disk, call, fd)
  } finally {
    disk.closeSync(fd)
  }
}

/** Settles as `work` does. Rejects soon after `check` throws; the signal then tells `work` to stop. */
async function unlessGivenUp(check: () => void, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const controller = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const givenUp = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      try {
        check()
      } catch (error) {
        controller.abort(error)
        reject(error)
      }
    }, checkMs)
  })
  try {
    await Promise.race([work(controller.signal), givenUp])
  } finally {
    clearInterval(timer)
  }
}
