/*
 * One file of a target: what is at a path, its contents, or its removal. For the maintenance file, which no deployment
 * put there. Every call names an entry of a held directory (held.ts), and follows no link.
 */
import { canHoldDirectories, type Folders, holdFolders, holdTarget, nameOf } from './held.js'
import { createDigester } from './found-entry.js'
import { type Disk, openRegular, syncDirectory } from './disk.js'
import { parentOf } from '../../base/files.js'

/** A question about a file, or its removal. It is plain data, for threads and helper processes. */
export interface FileJob {
  target: string
  /** The real path that the target must have; undefined: any. */
  real?: string | undefined
  /** Relative to the target, with `/`. */
  path: string
  /** Reads the contents, at most this number of bytes. */
  readBytes?: number
  /** Removes the file if it has these contents; null: whatever it contains. */
  remove?: { sha256: string | null }
}

/** What is at a path. */
export type FoundFile =
  /** The target does not exist, or leads elsewhere. */
  | { is: 'unreachable' }
  | { is: 'absent' }
  /** A directory, or another entry that is not a regular file. */
  | { is: 'other' }
  /** `contents` is null unless they were read. `isRemoved` says whether the file was removed. */
  | { is: 'file'; sha256: string; size: number; contents: Uint8Array | null; isRemoved: boolean }

/** The disk and the callback of a job. */
export interface FileTools {
  disk: Disk
  /** Called before each piece of the file. Throws if the job must be abandoned. */
  check?: (() => void) | undefined
}

/** Error codes of a path that does not exist. */
const missing = new Set(['ENOENT', 'ENOTDIR'])

/** Does a job. Throws the system's error, and refuses (`conflict`) a path through a symbolic link. */
export function workOnFile(job: FileJob, { disk, check }: FileTools): FoundFile {
  const root = ifThere(() => holdTarget(disk, job.target))
  if (root === null) return { is: 'unreachable' }
  try {
    if (canHoldDirectories && job.real !== undefined && root.real !== job.real) return { is: 'unreachable' }
    const folders = holdFolders(disk, root)
    try {
      return find(job, folders, { disk, check })
    } finally {
      folders.close()
    }
  } finally {
    root.close()
  }
}

function find({ path, readBytes, remove }: FileJob, folders: Folders, { disk, check }: FileTools): FoundFile {
  const directory = directoryOf(disk, folders, parentOf(path))
  if (directory === null) return { is: 'absent' }
  const place = `${directory}/${nameOf(path)}`
  const before = ifThere(() => disk.lstatSync(place))
  if (before === null) return { is: 'absent' }
  const digest = before.isFile() ? createDigester(disk, check).file(place) : null
  if (digest === null) return { is: 'other' }
  const { size } = digest
  const sha256 = Buffer.from(digest.sha256).toString('hex')
  const contents = readBytes === undefined || size > readBytes ? null : read(disk, place, readBytes)
  const isWanted = remove !== undefined && (remove.sha256 === null || remove.sha256 === sha256)
  if (isWanted) {
    // The owner of the target can still exchange the file now, but may also remove it.
    disk.unlinkSync(place)
    // The record that it was there is removed next. A power cut must not bring the file back after that.
    syncDirectory(disk, directory)
  }
  return { is: 'file', sha256, size, contents, isRemoved: isWanted }
}

/**
 * Returns the path to use in calls for a directory of the target; null if it does not exist. Refuses (`conflict`) a
 * symbolic link.
 */
function directoryOf(disk: Disk, folders: Folders, path: string): string | null {
  let at = ''
  for (const name of path === '' ? [] : path.split('/')) {
    const found = ifThere(() => disk.lstatSync(`${folders.at(at)}/${name}`))
    if (found === null || !(found.isDirectory() || found.isSymbolicLink())) return null
    at = at === '' ? name : `${at}/${name}`
  }
  return folders.at(at)
}

function read(disk: Disk, place: string, maxBytes: number): Uint8Array | null {
  const opened = openRegular(disk, place)
  if (opened === null) return null
  try {
    const buffer = Buffer.alloc(maxBytes + 1)
    let length = 0
    for (let count = -1; count !== 0 && length < buffer.length; length += count) {
      count = disk.readSync(opened.fd, buffer, length, buffer.length - length, null)
    }
    return length > maxBytes ? null : new Uint8Array(buffer.subarray(0, length))
  } finally {
    disk.closeSync(opened.fd)
  }
}

/** Returns the result of a call, or null if its path does not exist. */
function ifThere<T>(call: () => T): T | null {
  try {
    return call()
  } catch (error) {
    if (missing.has((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}
