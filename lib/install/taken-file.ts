/*
 * Takes over a file that a helper process has opened. svc itself may lack the rights for the path, so it opens the
 * descriptor of the process again through /proc, not a path.
 *
 * The process only says the number. What that descriptor is, svc finds out from the kernel: a regular file within the
 * target, which the process has open for reading. A descriptor that was opened without permission to read (O_PATH) would
 * otherwise give its owner every file that svc may read.
 */
import { constants, readFileSync, type Stats } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'
import { ownDescriptors, placeOfDescriptor } from '../base/files.js'
import { Refusal } from '../base/errors.js'
import { isStillRunning, type FoundProcess } from '../proc/stop.js'
import { checkInside, type OpenedFile } from './browse.js'
import { lookOnlyFlags } from './held.js'
import { holdTargetAsync } from './reach.js'

/** Which file is taken over. */
export interface TakenFile {
  /** The deployPath of the project. */
  target: string
  /** The path that was asked for, relative to the target. It is part of the messages. */
  path: string
  /** The number of the descriptor in the process. */
  fd: number
}

const readingFlags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)

/**
 * Opens the file for reading. Refuses: 403 outside_target, not_readable; 400 not_a_file; 409 changed_meanwhile. The
 * receiver must close it.
 */
export async function takeOver({ target, path, fd }: TakenFile, process: FoundProcess): Promise<OpenedFile> {
  const changed = (): Refusal =>
    new Refusal('conflict', 'changed_meanwhile', `"${path}" changed while it was being opened. Try again`)
  const held = await holdTargetAsync(target)
  try {
    // From here on it is one file, whatever the process does with its descriptor.
    const found = await open(`/proc/${process.pid}/fd/${fd}`, lookOnlyFlags).catch(() => {
      throw changed()
    })
    try {
      const stats = await found.stat()
      if (!stats.isFile()) throw new Refusal('invalid', 'not_a_file', `Cannot show "${path}": not a regular file`)
      const real = placeOfDescriptor(found.fd) ?? ''
      checkInside(held.real, real, path)
      if (!mayRead({ found, stats, fd }, process))
        throw new Refusal('forbidden', 'not_readable', `Cannot open "${path}": permission denied`)
      // All of this was about the process that svc has started, and not about a later one with its number.
      if (!isStillRunning(process)) throw changed()
      const handle = await open(`${ownDescriptors}/${found.fd}`, readingFlags)
      return { handle, path: real, name: basename(real), size: stats.size, mtimeMs: stats.mtimeMs }
    } finally {
      await found.close()
    }
  } finally {
    held.close()
  }
}

interface Found {
  found: FileHandle
  stats: Stats
  fd: number
}

const accessMode = 3
const readingModes = [constants.O_RDONLY, constants.O_RDWR]
const pathOnly = 0o10000000

/** Whether the process has the file open for reading. */
function mayRead({ found, stats, fd }: Found, { pid }: FoundProcess): boolean {
  const theirs = infoOf(`/proc/${pid}/fdinfo/${fd}`)
  const own = infoOf(`/proc/self/fdinfo/${found.fd}`)
  if (theirs === null || own === null) return false
  if ((theirs.flags & pathOnly) !== 0 || !readingModes.includes(theirs.flags & accessMode)) return false
  // Linux before 5.14 does not say which file it is, so it may be another one by now.
  if (own.inode === undefined) return grantsReading(stats, pid)
  return theirs.inode === own.inode && theirs.mount === own.mount
}

/** What the kernel says about a descriptor in one reading (proc(5)). */
function infoOf(path: string): { flags: number; mount: string | undefined; inode: string | undefined } | null {
  try {
    const text = readFileSync(path, 'latin1')
    const field = (name: string): string | undefined => new RegExp(`^${name}:\\s*(\\w+)$`, 'm').exec(text)?.[1]
    return { flags: Number.parseInt(field('flags') ?? '', 8), mount: field('mnt_id'), inode: field('ino') }
  } catch {
    return null
  }
}

/** Whether the permission bits of the file let the user of the process read it. Access control lists are left out. */
function grantsReading({ uid, gid, mode }: Stats, pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1')
    const numbers = (name: string): number[] =>
      (new RegExp(`^${name}:\\s*([\\d\\s]*?)$`, 'm').exec(status)?.[1] ?? '').split(/\s+/).map(Number)
    if (numbers('Uid')[1] === uid) return (mode & constants.S_IRUSR) !== 0
    const isInGroup = numbers('Gid')[1] === gid || numbers('Groups').includes(gid)
    return (mode & (isInGroup ? constants.S_IRGRP : constants.S_IROTH)) !== 0
  } catch {
    return false
  }
}
