/**
 * From the disk into memory: svc.db read whole, checked, and the redo log replayed over it. Used at the start, and when
 * a write could not be made durable and memory must become what the disk holds. Changes nothing on the disk, and what
 * cannot be read is refused, so that it is never written over.
 */
import type { SqlJsStatic } from 'sql.js'
import { Refusal } from '../base/refusal.js'
import type { Disk } from './disk.js'
import { createMemory } from './memory.js'
import type { Memory } from './memory.js'
import { faultOfPages } from './page-check.js'
import { pieceBytes } from './page-file.js'
import { readRedo } from './redo.js'
import type { Call, RedoContent } from './redo.js'
import { applicationId, schemaVersion, versionOf } from './schema.js'

export interface Recovered {
  memory: Memory
  /** Number of the last write that svc.db holds; null: there is no svc.db. */
  held: number | null
  /** Number of the last write in memory. */
  sequence: number
  /** null: there is no redo log. */
  redo: RedoContent | null
  /** Whether every page of svc.db was looked at; not so for a large one (page-check-thread.ts). */
  isChecked: boolean
}

export interface RecoveryOptions {
  sqlite: SqlJsStatic
  disk: Disk
  databasePath: string
  redoPath: string
  /** svc.db, as `loadDatabase` gives it; default: it is read here. */
  file?: Uint8Array[] | null
  /** Reads only so many bytes of the redo log: those known to be durable. */
  redoEnd?: number
}

/** Up to this size every page is looked at before anything else, which takes some 2 ms a MB. */
const directCheckBytes = 8 * 1024 * 1024

/** Refuses: `database_damaged`, `database_newer`, `database_missing`, `database_unreadable`, `redo_damaged`, `redo_newer`. */
export function recover(options: RecoveryOptions): Recovered {
  const { databasePath, redoPath } = options
  const { disk } = options
  const file = options.file === undefined ? readable(databasePath, () => disk.readPieces(databasePath, pieceBytes)) : options.file
  const log = readable(redoPath, () => disk.read(redoPath))?.subarray(0, options.redoEnd)
  const redo = log === undefined ? null : readRedo(log, redoPath)
  if (file === null) {
    if (redo !== null && (redo.lines.length > 0 || redo.after > 0)) throw missing(databasePath, redoPath)
    return { memory: createMemory(options.sqlite, null), held: null, sequence: 0, redo: null, isChecked: true }
  }
  refuseForeignJournals(options)
  const { memory, held } = openDatabase(options.sqlite, file, databasePath)
  try {
    const sequence = redo === null ? held : replay(memory, held, redo, options)
    return { memory, held, sequence, redo, isChecked: isSmall(file) }
  } catch (error) {
    memory.close()
    throw error
  }
}

function openDatabase(sqlite: SqlJsStatic, file: Uint8Array[], path: string): { memory: Memory; held: number } {
  const fault = faultOfHeader(file)
  if (fault !== null) throw damaged(path, fault)
  // Someone opened it in WAL mode and closed it again: the file is complete, and memory has no WAL (sqlite3_deserialize
  // asks for the same two bytes).
  if (file[0]?.[18] === 2) file[0].fill(1, 18, 20)
  let memory: Memory
  try {
    memory = createMemory(sqlite, file)
  } catch (error) {
    throw damaged(path, (error as Error).message, error)
  }
  try {
    return { memory, held: checked(memory, path, isSmall(file)) }
  } catch (error) {
    memory.close()
    throw error instanceof Refusal ? error : damaged(path, (error as Error).message, error)
  }
}

/** What can be told without SQLite: https://sqlite.org/fileformat2.html#the_database_header. */
function faultOfHeader(file: Uint8Array[]): string | null {
  const length = lengthOf(file)
  const header = Buffer.from(file[0]?.subarray(0, 100) ?? [])
  if (header.length < 100 || header.toString('latin1', 0, 16) !== 'SQLite format 3\0') return 'it is not a SQLite file'
  const pageBytes = header.readUInt16BE(16) === 1 ? 65536 : header.readUInt16BE(16)
  const pages = header.readUInt32BE(28)
  const isCountValid = header.readUInt32BE(24) === header.readUInt32BE(92)
  if (isCountValid && pages * pageBytes !== length) {
    return `it is ${length} bytes long, and its header says ${pages * pageBytes}`
  }
  return null
}

function lengthOf(file: Uint8Array[]): number {
  return file.reduce((sum, { length }) => sum + length, 0)
}

function isSmall(file: Uint8Array[]): boolean {
  return lengthOf(file) <= directCheckBytes
}

/** Gives the number of the last write the file holds. */
function checked(memory: Memory, path: string, checksPages: boolean): number {
  const fault = checksPages ? faultOfPages(memory) : null
  if (fault !== null) throw damaged(path, fault)
  if (memory.pragma('application_id') !== applicationId) {
    throw damaged(path, 'it is the database of another program')
  }
  const version = versionOf(memory)
  if (version > schemaVersion) {
    throw new Refusal(
      'unsupported',
      'database_newer',
      `cannot open the database: "${path}" has schema version ${version}, and this svc knows ${schemaVersion} and older; install the newer svc again, or go back with "svc restore --force" and a backup that was made before the upgrade`
    )
  }
  return (memory.get<{ sequence: number }>('SELECT sequence FROM store') as { sequence: number }).sequence
}

function replay(memory: Memory, held: number, redo: RedoContent, options: RecoveryOptions): number {
  const { databasePath, redoPath } = options
  if (redo.after > held) {
    throw new Refusal(
      'unavailable',
      'database_outdated',
      `cannot open the database: "${databasePath}" holds the writes up to ${held}, and "${redoPath}" begins after ${redo.after}; they are not of the same time`
    )
  }
  let sequence = held
  memory.transaction(() => {
    for (const { first, transactions } of redo.lines) {
      if (first > sequence + 1) throw redoDamaged(redoPath, `the writes from ${sequence + 1} to ${first - 1} are missing`)
      for (const calls of transactions.slice(sequence + 1 - first)) {
        sequence++
        for (const call of calls) repeat(memory, call, redoPath, sequence)
      }
    }
  })
  return sequence
}

function repeat(memory: Memory, { sql, values }: Call, path: string, sequence: number): void {
  try {
    memory.run(sql, values)
  } catch (error) {
    throw redoDamaged(path, `write ${sequence} cannot be repeated: ${(error as Error).message}`, error)
  }
}

/** A journal of another program beside svc.db holds changes that svc.db itself does not. */
function refuseForeignJournals({ disk, databasePath }: RecoveryOptions): void {
  for (const path of [`${databasePath}-wal`, `${databasePath}-journal`]) {
    if ((disk.size(path) ?? 0) === 0) continue
    throw new Refusal(
      'unavailable',
      'database_in_use',
      `cannot open the database: "${path}" is there, so another program has changed it and is not done; close that program, or open and close "${databasePath}" once with sqlite3`
    )
  }
}

/** svc.db for `recover`, read by threads if it is large; null: there is none. Refuses: `database_unreadable`. */
export async function loadDatabase({ disk, databasePath }: Pick<RecoveryOptions, 'disk' | 'databasePath'>): Promise<Uint8Array[] | null> {
  try {
    return await disk.loadPieces(databasePath, pieceBytes)
  } catch (error) {
    throw unreadable(databasePath, error)
  }
}

function readable<T>(path: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    throw unreadable(path, error)
  }
}

function unreadable(path: string, error: unknown): Refusal {
  return new Refusal(
    'unavailable',
    'database_unreadable',
    `cannot open the database: "${path}" cannot be read (${(error as Error).message}); run svc as the user it belongs to, or give it to this one (chown)`,
    { cause: error }
  )
}

/** What a svc.db that cannot be trusted is refused with. */
export function damaged(path: string, how: string, cause?: unknown): Refusal {
  return new Refusal(
    'unavailable',
    'database_damaged',
    `cannot open the database: "${path}" is damaged (${how}); nothing was changed. Restore a backup with "svc restore --force", or put a good copy in its place`,
    { cause }
  )
}

function redoDamaged(path: string, how: string, cause?: unknown): Refusal {
  return new Refusal('unavailable', 'redo_damaged', `cannot open the database: "${path}" is damaged (${how}); nothing was changed`, {
    cause
  })
}

function missing(path: string, redoPath: string): Refusal {
  return new Refusal(
    'unavailable',
    'database_missing',
    `cannot open the database: "${path}" is missing, and "${redoPath}" holds writes that rest on it; put "${path}" back, or move both away to begin anew`
  )
}
