/**
 * The redo log file: lines are appended, and a checkpoint starts a new file.
 *
 * Room is reserved in advance by writing zeros, because a sync of bytes inside a file costs less than a sync that makes
 * it longer. `end` is where the last durable line ends. After a failed append, the contents after `end` are unknown:
 * they are cut off, and the cut is synced, before the next line is written. The same applies to a rename that could not
 * be synced.
 */
import { dirname } from 'node:path'
import { isDiskFull } from '../base/system-error.js'
import type { Disk, DiskFile } from './disk.js'
import { encodeHeader } from './redo.js'

/** The open redo log. */
export interface RedoFile {
  /** Size of the header and the durable lines, in bytes. */
  readonly end: number
  /** Appends a line. Resolves when it is on the disk; if it rejects, the line is not part of the log. */
  append(line: Uint8Array): Promise<void>
  /**
   * Starts a new file after a checkpoint that includes the writes up to `after`. The lines from byte `from` on are
   * kept.
   */
  restart(after: number, from: number): Promise<void>
  close(): Promise<void>
}

/** Options of `openRedoFile`. */
export interface RedoFileOptions {
  disk: Disk
  path: string
  /** Number of bytes that are known to be valid. */
  end: number
  /** Whether bytes follow `end` that must be cut off. */
  torn: boolean
}

const reserveBytes = 1024 * 1024

/** Opens a redo log. The file is not opened or changed before the first append. A new log begins with `restart`. */
export function openRedoFile(options: RedoFileOptions): RedoFile {
  const { disk, path } = options
  let file: DiskFile | null = null
  let { end } = options
  let reserved = disk.size(path) ?? 0
  let mustCut = options.torn
  let mustSyncDirectory = false

  async function settle(): Promise<DiskFile> {
    file ??= await disk.open(path)
    if (mustCut) {
      await file.truncate(end)
      await file.sync()
      reserved = end
      mustCut = false
    }
    if (mustSyncDirectory) {
      await disk.syncDirectory(dirname(path))
      mustSyncDirectory = false
    }
    return file
  }

  async function writeAnew(fresh: DiskFile, after: number, from: number): Promise<{ end: number; reserved: number }> {
    const tail = end > from ? await (await settle()).read(from, end - from) : new Uint8Array()
    const start = Buffer.concat([encodeHeader(after), tail])
    await fresh.write(start, 0)
    const reserved = await reserve(fresh, start.length)
    await fresh.sync()
    return { end: start.length, reserved }
  }

  async function close(): Promise<void> {
    const open = file
    file = null
    await open?.close()
  }

  return {
    get end() {
      return end
    },
    async append(line) {
      const into = await settle()
      const next = end + line.length
      mustCut = true
      await into.write(line, end)
      if (next > reserved) reserved = await reserve(into, next)
      await into.sync()
      mustCut = false
      end = next
    },
    async restart(after, from) {
      const fresh = await disk.create(`${path}.tmp`)
      let extent: { end: number; reserved: number }
      try {
        extent = await writeAnew(fresh, after, from)
        // Windows cannot rename over an open file.
        await close()
        await disk.rename(`${path}.tmp`, path)
      } catch (error) {
        await fresh.close()
        await disk.remove(`${path}.tmp`).catch(() => {})
        throw error
      }
      file = fresh
      ;({ end, reserved } = extent)
      mustCut = false
      mustSyncDirectory = true
      await settle()
    },
    close
  }
}

/**
 * Reserves room for later lines and returns its end. On a full disk it reserves nothing, so that a line that fits is
 * not refused.
 */
async function reserve(file: DiskFile, from: number): Promise<number> {
  try {
    await file.write(new Uint8Array(reserveBytes), from)
    return from + reserveBytes
  } catch (error) {
    if (!isDiskFull(error)) throw error
    return from
  }
}
