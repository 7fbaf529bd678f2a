/*
 * The file of an undo journal (undo.ts), by its name or, in a helper process that has no right to the data directory, as
 * an open file.
 *
 * A helper process leaves a line of svc's in the journal before its own: `helper <user> <pid> <start>`. A later recovery
 * ends that process, if it still runs, and has the rights of the same user.
 */
import { readFileSync, type PathLike } from 'node:fs'
import { basename, dirname } from 'node:path'
import { syncDirectory, writeFully, type Disk } from './disk.js'

export const journalVersion = 'svc-undo 3'

/** Everything that could end a line, or look like the end of one, and the sign of the encoding itself. */
const encoded = /[\u0000-\u001f\u007f%]/g

/** A path as a journal has it since version 3: one line, with control characters and `%` as `%0A`. */
export function encodePath(path: string): string {
  return path.replace(encoded, found => `%${found.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
}

/** Returns the path that `encodePath` was given. */
export function decodePath(text: string): string {
  return text.replace(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
}

/** What an extraction, or its recovery, does with its journal. */
export interface JournalFile {
  readonly deployId: string
  /** Makes the journal, with its target; on the disk when it returns. */
  begin(target: string): void
  append(batches: Iterable<string>, options?: { isSynced?: boolean }): void
  /** All of it, and the user that staging must belong to. */
  read(): { text: string; user: number }
  /** The extraction has come to its end. */
  remove(): void
}

/** The journal at a path. */
export function journalAt(disk: Disk, path: string): JournalFile {
  const write = (flags: string, batches: Iterable<string>, isSynced: boolean): void => {
    withFile(disk, path, flags, fd => writeTo(disk, fd, batches, isSynced))
  }
  return {
    deployId: deployIdOf(path),
    begin(target) {
      write('wx', [`${journalVersion}\ntarget ${encodePath(target)}\n`], true)
      syncDirectory(disk, dirname(path))
    },
    append: (batches, { isSynced = true } = {}) => write('a', batches, isSynced),
    read: () => withFile(disk, path, 'r', fd => ({ text: readFileSync(fd, 'utf8'), user: disk.fstatSync(fd).uid })),
    remove: () => disk.unlinkSync(path)
  }
}

/**
 * The journal of a helper process, opened for appending by svc, which has written its first line. Removing it empties
 * it; svc removes its name.
 */
export function openedJournal(disk: Disk, fd: number, deployId: string): JournalFile {
  return {
    deployId,
    begin: target => writeTo(disk, fd, [`target ${encodePath(target)}\n`], true),
    append: (batches, { isSynced = true } = {}) => writeTo(disk, fd, batches, isSynced),
    // By position: the file may have been read before.
    read: () => ({ text: readAll(disk, fd), user: process.geteuid?.() ?? 0 }),
    remove: () => disk.ftruncateSync(fd, 0)
  }
}

/** The deployment that a journal at a path is of. */
export function deployIdOf(path: string): string {
  return basename(path, '.undo')
}

/** The process that works on an extraction instead of a thread of svc. */
export interface JournalHelper {
  user: string
  pid: number
  /** When it started, as proc(5) counts: another process that has its number by now started later. */
  startedAt: string
}

/** The first lines of a journal that a helper process is to go on with. */
export function formatHelper({ user, pid, startedAt }: JournalHelper): string {
  return `${journalVersion}\nhelper ${user} ${pid} ${startedAt}\n`
}

/** The helper process of a journal; null: a thread of svc worked on it. */
export function helperOf(text: string): JournalHelper | null {
  const [, user = '', pid = '', startedAt = ''] = /^[^\n]*\nhelper (\S+) (\d+) (\d+)\n/.exec(text) ?? []
  return user === '' ? null : { user, pid: Number(pid), startedAt }
}

function writeTo(disk: Disk, fd: number, batches: Iterable<string>, isSynced: boolean): void {
  for (const batch of batches) writeFully(disk, fd, Buffer.from(batch))
  if (isSynced) disk.fdatasyncSync(fd)
}

function withFile<T>(disk: Disk, path: PathLike, flags: string, use: (fd: number) => T): T {
  const fd = disk.openSync(path, flags, 0o600)
  try {
    return use(fd)
  } finally {
    disk.closeSync(fd)
  }
}

function readAll(disk: Disk, fd: number): string {
  const bytes = Buffer.alloc(disk.fstatSync(fd).size)
  let length = 0
  while (length < bytes.length) {
    const count = disk.readSync(fd, bytes, length, bytes.length - length, length)
    if (count === 0) break
    length += count
  }
  return bytes.toString('utf8', 0, length)
}
