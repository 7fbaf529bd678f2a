/*
 * The file of an undo journal (undo.ts), either by its path or as an open file. A helper process gets it open, because
 * it has no permission to access the data directory. journal-owner.ts says which process that is.
 */
import { basename, dirname } from 'node:path'
import { syncDirectoryAsync, syncOpen, writeFully, type Disk } from './disk.js'

/** Maximum size of a journal, and of its lines: each of 200,000 entries has a few. What is larger svc has not written. */
const maxJournalBytes = 256 * 1024 * 1024
const maxJournalLines = 4_000_000

/** The first line of a journal of the current version. */
export const journalVersion = 'svc-undo 4'

/**
 * Every character that could end a line, or look like the end of one, and the escape character of the encoding itself.
 */
const encoded = /[\u0000-\u001f\u007f%]/g

/**
 * Returns a path as journals contain it since version 3: on one line, with control characters and `%` written as `%0A`.
 */
export function encodePath(path: string): string {
  return path.replace(encoded, found => `%${found.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
}

/** Decodes the result of `encodePath`. */
export function decodePath(text: string): string {
  return text.replace(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
}

/** The operations of an extraction, or of its recovery, on its journal. */
export interface JournalFile {
  readonly deployId: string
  /** Creates the journal and writes its target. The journal is on disk when this resolves. */
  begin(target: string): Promise<void>
  append(batches: Iterable<string>, options?: { isSynced?: boolean }): void
  /** Appends at once, and syncs without blocking the thread. */
  appendAsync(batches: Iterable<string>): Promise<void>
  /** Returns the whole text, and the user that must own staging. A text that svc cannot have written is empty. */
  read(): { text: string; user: number }
  /** Removes the journal: the extraction has finished. */
  remove(): void
}

/** Returns the journal at a path. */
export function journalAt(disk: Disk, path: string): JournalFile {
  const use = <T>(flags: string, work: (opened: OpenedFile) => T): T => {
    const fd = disk.openSync(path, flags, 0o600)
    try {
      return work({ disk, fd })
    } finally {
      disk.closeSync(fd)
    }
  }
  const useAsync = async (flags: string, batches: Iterable<string>): Promise<void> => {
    const fd = disk.openSync(path, flags, 0o600)
    try {
      await writeAsync({ disk, fd }, batches)
    } finally {
      disk.closeSync(fd)
    }
  }
  return {
    deployId: deployIdOf(path),
    async begin(target) {
      await useAsync('wx', [`${journalVersion}\ntarget ${encodePath(target)}\n`])
      await syncDirectoryAsync(disk, dirname(path))
    },
    append: (batches, { isSynced = true } = {}) => use('a', file => writeTo(file, batches, isSynced)),
    appendAsync: batches => useAsync('a', batches),
    read: () => use('r', ({ fd }) => ({ text: readAll(disk, fd), user: disk.fstatSync(fd).uid })),
    remove: () => disk.unlinkSync(path)
  }
}

/**
 * Returns the journal of a helper process. svc has opened it for appending and has written its head. `remove` empties
 * it; svc then removes the file.
 */
export function openedJournal(disk: Disk, fd: number, deployId: string): JournalFile {
  return {
    deployId,
    begin: target => writeAsync({ disk, fd }, [`target ${encodePath(target)}\n`]),
    append: (batches, { isSynced = true } = {}) => writeTo({ disk, fd }, batches, isSynced),
    appendAsync: batches => writeAsync({ disk, fd }, batches),
    // Read by position: the file may have been read before.
    read: () => ({ text: readAll(disk, fd), user: process.geteuid?.() ?? 0 }),
    remove: () => disk.ftruncateSync(fd, 0)
  }
}

/** Returns the id of the deployment that the journal at `path` belongs to. */
export function deployIdOf(path: string): string {
  return basename(path, '.undo')
}

/** The head of a journal that a helper process continues. */
export const journalHead = `${journalVersion}\n`

/** The helper process that an earlier version of svc has noted in a journal. */
export interface NotedHelper {
  user: string
  pid: number
  startedAt: string
}

/** Returns the helper process that an earlier version of svc has noted in a journal, or null. */
export function notedHelper(text: string): NotedHelper | null {
  const [, user = '', pid = '', startedAt = ''] = /^[^\n]*\nhelper (\S+) (\d+) (\d+)\n/.exec(text) ?? []
  return user === '' ? null : { user, pid: Number(pid), startedAt }
}

interface OpenedFile {
  disk: Disk
  fd: number
}

function writeTo({ disk, fd }: OpenedFile, batches: Iterable<string>, isSynced: boolean): void {
  for (const batch of batches) writeFully(disk, fd, Buffer.from(batch))
  if (isSynced) disk.fdatasyncSync(fd)
}

async function writeAsync({ disk, fd }: OpenedFile, batches: Iterable<string>): Promise<void> {
  writeTo({ disk, fd }, batches, false)
  await syncOpen(disk, 'fdatasync', fd)
}

function readAll(disk: Disk, fd: number): string {
  const { size } = disk.fstatSync(fd)
  if (size > maxJournalBytes) return ''
  const bytes = Buffer.alloc(size)
  let length = 0
  while (length < bytes.length) {
    const count = disk.readSync(fd, bytes, length, bytes.length - length, length)
    if (count === 0) break
    length += count
  }
  return hasTooManyLines(bytes) ? '' : bytes.toString('utf8', 0, length)
}

function hasTooManyLines(bytes: Buffer): boolean {
  let count = 0
  if (bytes.length > maxJournalLines) for (let at = -1; (at = bytes.indexOf(10, at + 1)) !== -1; ) count++
  return count > maxJournalLines
}
