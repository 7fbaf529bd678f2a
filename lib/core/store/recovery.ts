/**
 * Recovery: reads svc.db into memory, checks it, and replays the redo log. It runs at the start, and when a write could
 * not be made durable and memory must return to the state of the disk. It changes nothing on the disk, and it refuses
 * files that it cannot read, so that they are never overwritten.
 */
import { dirname } from 'node:path'
import type { SqlJsStatic } from 'sql.js'
import { type Clock, instantOf } from '../../base/clock.js'
import { isDenied, reasonOf, Refusal } from '../../base/errors.js'
import type { Disk } from './disk.js'
import type { GroupCommit } from './group-commit.js'
import { createMemory, type Memory } from './memory.js'
import { faultOfPages, type Image, pieceBytes } from './page-file.js'
import { readRedo, type RedoContent } from './redo.js'
import { applicationId, runCalls, schemaVersion, versionOf } from './schema.js'

/** The result of a recovery. */
export interface Recovered {
  memory: Memory
  /** Number of the last write in svc.db; null if there is no svc.db. */
  held: number | null
  /** Number of the last write in memory. */
  sequence: number
  /** The contents of the redo log; null if there is none. */
  redo: RedoContent | null
  /** Whether every page of svc.db was checked. A large one is checked later (page-check-thread.ts). */
  isChecked: boolean
}

interface RecoveryOptions {
  sqlite: SqlJsStatic
  disk: Disk
  databasePath: string
  redoPath: string
  /** The contents of svc.db as `loadDatabase` returns them. If absent, the file is read here. */
  file?: Uint8Array[] | null
  /** The file of a new database. If absent or null, a new database is empty. */
  made?: Uint8Array | null
  /** Number of bytes of the redo log to read: those known to be durable. */
  redoEnd?: number
}

/** Up to this size, every page is checked before anything else, which takes about 2 ms per MB. */
const directCheckBytes = 8 * 1024 * 1024

/**
 * Recovers the database. Refuses: `database_damaged`, `database_newer`, `database_outdated`, `database_missing`,
 * `database_in_use`, `database_unreadable`, `redo_damaged`, `redo_newer`.
 */
export function recover(options: RecoveryOptions): Recovered {
  const { databasePath, redoPath } = options
  const { disk } = options
  const file =
    options.file === undefined ? readable(databasePath, () => disk.readPieces(databasePath, pieceBytes)) : options.file
  const log = readable(redoPath, () => disk.read(redoPath))?.subarray(0, options.redoEnd)
  const redo = log === undefined ? null : readRedo(log, redoPath)
  if (file === null) {
    if (redo !== null && (redo.lines.length > 0 || redo.after > 0)) throw missing(databasePath, redoPath)
    return {
      memory: createMemory(options.sqlite, options.made ?? null),
      held: null,
      sequence: 0,
      redo: null,
      isChecked: true
    }
  }
  refuseForeignJournals(options)
  const { memory, held } = openDatabase(options.sqlite, file, databasePath)
  try {
    const sequence = redo === null ? held : replay({ memory, held, redo }, options)
    return { memory, held, sequence, redo, isChecked: isSmall(file) }
  } catch (error) {
    memory.close()
    throw error
  }
}

function openDatabase(sqlite: SqlJsStatic, file: Uint8Array[], path: string): { memory: Memory; held: number } {
  const fault = faultOfHeader(file)
  if (fault !== null) throw damaged(path, fault)
  // Another program opened the database in WAL mode and closed it again. The file is complete, but memory cannot use a
  // WAL (sqlite3_deserialize requires a change of the same two bytes).
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

/** Returns a fault that the header shows without SQLite: https://sqlite.org/fileformat2.html#the_database_header. */
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

/** Checks the database and returns the number of its last write. */
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
      `Cannot open the database: "${path}" has schema version ${version}, but this svc supports at most ${schemaVersion}. Install the newer svc again, or run "svc restore --force" with a backup from before the upgrade`
    )
  }
  const sequence = memory.get('SELECT sequence FROM store')?.['sequence']
  if (typeof sequence !== 'number') throw damaged(path, 'it does not say which writes it contains')
  return sequence
}

interface Replay {
  memory: Memory
  /** Number of the last write in svc.db. */
  held: number
  redo: RedoContent
}

/** Runs the writes that svc.db does not include; returns the number of the last one. */
function replay({ memory, held, redo }: Replay, { databasePath, redoPath }: RecoveryOptions): number {
  if (redo.after > held) {
    throw new Refusal(
      'unavailable',
      'database_outdated',
      `Cannot open the database: "${databasePath}" contains the writes up to ${held}, but "${redoPath}" begins after ${redo.after}. The files do not belong together: put back the ones that do`
    )
  }
  let sequence = held
  memory.transaction(() => {
    for (const { first, transactions } of redo.lines) {
      if (first > sequence + 1)
        throw redoDamaged(redoPath, `the writes from ${sequence + 1} to ${first - 1} are missing`)
      for (const calls of transactions.slice(sequence + 1 - first)) {
        sequence++
        try {
          runCalls(memory, calls)
        } catch (error) {
          throw redoDamaged(redoPath, `write ${sequence} cannot be replayed: ${(error as Error).message}`, error)
        }
      }
    }
  })
  return sequence
}

/** Refuses a journal of another program next to svc.db: it has changes that svc.db itself does not include. */
function refuseForeignJournals({ disk, databasePath }: RecoveryOptions): void {
  for (const path of [`${databasePath}-wal`, `${databasePath}-journal`]) {
    if ((disk.size(path) ?? 0) === 0) continue
    throw new Refusal(
      'unavailable',
      'database_in_use',
      `Cannot open the database: "${path}" exists, so another program has unfinished changes. Close that program, or open and close "${databasePath}" once with sqlite3`
    )
  }
}

/**
 * Loads svc.db for `recover`; threads read a large file. Returns null if there is none. Refuses `database_unreadable`.
 */
export async function loadDatabase({
  disk,
  databasePath
}: Pick<RecoveryOptions, 'disk' | 'databasePath'>): Promise<Uint8Array[] | null> {
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
  const cure = isDenied(error)
    ? 'Run svc as its owner, or give it to this user (chown)'
    : 'Move it away, and restore a backup with "svc restore --force"'
  const sentence = `Cannot open the database: cannot read "${path}": ${reasonOf(error)}. ${cure}`
  return new Refusal('unavailable', 'database_unreadable', sentence, { cause: error })
}

/** Returns the refusal of a damaged svc.db. */
export function damaged(path: string, how: string, cause?: unknown): Refusal {
  return new Refusal(
    'unavailable',
    'database_damaged',
    `Cannot open the database: "${path}" is damaged (${how}). Nothing was changed. Restore a backup with "svc restore --force", or put a good copy in its place`,
    { cause }
  )
}

function redoDamaged(path: string, how: string, cause?: unknown): Refusal {
  return new Refusal(
    'unavailable',
    'redo_damaged',
    `Cannot open the database: "${path}" is damaged (${how}). Nothing was changed`,
    {
      cause
    }
  )
}

function missing(path: string, redoPath: string): Refusal {
  return new Refusal(
    'unavailable',
    'database_missing',
    `Cannot open the database: "${path}" is missing, but "${redoPath}" has writes that depend on it. Put "${path}" back, or move both away to start with an empty database`
  )
}

/*
 * Checkpoints: write svc.db from memory and start a new redo log.
 *
 *   1. Record the number of the last executed transaction in the database itself, and take an image of the database.
 *   2. Wait until that transaction is durable. If it is refused, drop the image.
 *   3. Write svc.db.tmp, sync it, rename it over svc.db, and sync the rename.
 *   4. Between two lines of the redo log: write a new redo log with the lines written since step 1, and rename it over
 *      the old one.
 *
 * A checkpoint does not block the process: an image takes no time (page-file.ts), and writes continue during steps 2
 * and 3. After a crash at any point, svc.db and the redo log fit together: recovery skips the lines whose number svc.db
 * already includes.
 */

/** Writes checkpoints, on request and in the background. */
export type Checkpoints = ReturnType<typeof createCheckpoints>

interface CheckpointOptions {
  disk: Disk
  path: string
  clock: Clock
  /** The redo log beside svc.db. */
  redo: { readonly end: number; mark(): void; trim(upTo: number): Promise<void> }
  commits: Pick<GroupCommit, 'executed' | 'settled' | 'between'>
  /** Returns the database in memory; throws if there is none. */
  memory: () => Memory
  /** Resolves once svc.db is known to be undamaged. Until then, or if it rejects, svc.db is not overwritten. */
  verified: () => Promise<void>
  /** The number of the last write in svc.db. */
  held: number
  /** Time without a write after which a checkpoint begins. */
  idleMs: number
  /** Size of the redo log at which a checkpoint begins. */
  foldBytes: number
  warn: (sentence: string) => void
}

/**
 * A checkpoint begins when the redo log reaches this fraction of svc.db (and `foldBytes`), so that checkpoints cost
 * little compared with writes.
 */
const largestShare = 1 / 8

/** Creates the checkpoints of a store. None begins before a call. */
export function createCheckpoints(options: CheckpointOptions) {
  const { disk, path, clock, redo, commits, foldBytes } = options
  let { held } = options
  let foldAt = Math.max(foldBytes, (disk.size(path) ?? 0) * largestShare)
  let running: Promise<void> | null = null
  let idle: NodeJS.Timeout | undefined

  async function foldNow(force: boolean): Promise<void> {
    await options.verified()
    const upTo = commits.executed
    if (upTo === held && !force) return
    const image = stampedImage(options.memory(), upTo, clock)
    redo.mark()
    try {
      await commits.settled()
      await replaceFile(disk, path, image)
    } finally {
      image.release()
    }
    held = upTo
    await commits.between(() => redo.trim(upTo))
    foldAt = Math.max(foldBytes, image.bytes * largestShare)
  }

  /** Only one checkpoint runs at a time; a call during one waits and then writes the next. */
  async function fold({ force = false } = {}): Promise<void> {
    while (running !== null) await running.catch(() => {})
    running = foldNow(force)
    try {
      await running
    } finally {
      running = null
    }
  }

  function begin(): void {
    if (running !== null) return
    fold().catch((error: Error) => {
      foldAt = redo.end + foldBytes
      options.warn(`Cannot write a checkpoint to "${path}": ${error.message}. The redo log grows until that succeeds`)
    })
  }

  return {
    /** Writes a checkpoint with everything executed so far. With `force`, also if svc.db is already up to date. */
    fold,
    /** Writes a checkpoint in the background. If it fails, only a warning is logged, because no write is lost. */
    begin,

    /**
     * To be called after each durable write. Writes a checkpoint in the background if the redo log is long enough, or
     * after a while without writes.
     */
    consider(): void {
      if (redo.end >= foldAt) begin()
      idle ??= setTimeout(begin, options.idleMs).unref()
      idle.refresh()
    },

    /** Cancels the timer and waits for the checkpoint in progress. */
    async stop(): Promise<void> {
      clearTimeout(idle)
      while (running !== null) await running.catch(() => {})
    }
  }
}

/** Returns an image of a database that records that it includes the writes up to `upTo`. The caller releases it. */
export function stampedImage(memory: Memory, upTo: number, clock: Clock): Image {
  // SQLite writes no page that stays as it is, and a second image of the same moment would have the same stamp.
  memory.run("UPDATE store SET writtenAt = ''", [])
  return memory.image('UPDATE store SET sequence = ?, writtenAt = ?', [upTo, instantOf(clock)])
}

/**
 * Replaces the file at `path` with an image. At every moment the path has either the complete old file or the complete
 * new one: the image is written to `<path>.tmp`, synced, renamed, and the rename is synced. If this rejects before the
 * rename, nothing has changed.
 */
export async function replaceFile(disk: Disk, path: string, image: Image): Promise<void> {
  const beside = `${path}.tmp`
  try {
    const file = await disk.create(beside)
    try {
      let at = 0
      for (const piece of image.pieces) {
        await file.write(piece, at)
        at += piece.length
      }
      await file.sync()
    } finally {
      await file.close()
    }
    await disk.rename(beside, path)
  } catch (error) {
    await disk.remove(beside).catch(() => {})
    throw error
  }
  await disk.syncDirectory(dirname(path))
}
