/**
 * The redo log on the disk: appended to, begun anew after a checkpoint.
 *
 * Room is reserved ahead by writing zeros, because a sync of bytes inside a file costs less than one that makes it
 * longer. `end` is where the last durable line ends. After a failed append, what lies past `end` is unknown: it is cut
 * off, and the cut synced, before the next line is written; likewise a rename that could not be synced.
 */
import { dirname } from 'node:path'
import { isDiskFull } from '../base/system-error.js'
import type { Disk, DiskFile } from './disk.js'
import { encodeHeader } from './redo.js'

export interface RedoFile {
  /** Bytes of header and durable lines. */
  readonly end: number
  /** Resolves when the line is on the disk; when it rejects, the line is not part of the log. */
  append(line: Uint8Array): Promise<void>
  /** Begins a new file after a checkpoint that holds the writes up to `after`; lines from byte `from` on are kept. */
  restart(after: number, from: number): Promise<void>
  close(): Promise<void>
}

export interface RedoFileOptions {
  disk: Disk
  path: string
  /** Bytes that are known to be good, and whether something follows them that must be cut off. */
  end: number
  torn: boolean
}

const reserveBytes = 1024 * 1024

/** Nothing is opened or changed before the first line is appended. One that is not there yet begins with `restart`. */
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
        // Windows renames nothing over a file that is open.
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

/** Room for later lines, if the disk has it: a full one must not refuse a line that fits. Gives where it ends. */
async function reserve(file: DiskFile, from: number): Promise<number> {
  try {
    await file.write(new Uint8Array(reserveBytes), from)
    return from + reserveBytes
  } catch (error) {
    if (!isDiskFull(error)) throw error
    return from
  }
}
