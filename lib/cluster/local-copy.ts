/*
 * What a hub has of the cluster on its own disk: svc.db and its redo log, as a server without a cluster has them, and
 * svc.db.cluster, which says to which log they belong.
 *
 * A line comes here after it is durable in etcd: a follower applies it in memory and then writes it to the redo log; on the
 * leader memory already has it. The redo log is not synced with each line, because etcd has it. So after a power
 * cut it may be damaged; then the hub starts from svc.db alone and reads the rest from etcd. After the end of a process
 * nothing is lost, and a hub that etcd does not answer starts with all that it had.
 */

import { dirname, join } from 'node:path'
import type { Clock } from '../base/clock.js'
import { Refusal } from '../base/errors.js'
import {
  type Checkpoints,
  createCheckpoints,
  loadDatabase,
  recover,
  type Recovered,
  replaceFile,
  stampedImage
} from '../core/store/recovery.js'
import type { Disk, DiskFile } from '../core/store/disk.js'
import type { GroupCommit } from '../core/store/group-commit.js'
import { LiveMemory } from '../core/store/live-memory.js'
import { createMemory } from '../core/store/memory.js'
import type { Image } from '../core/store/page-file.js'
import { createVerification, upgrade, type Verification } from '../core/store/durable-store.js'
import { encodeTransaction, type LogLine, Trimmed } from '../core/store/redo.js'
import { migrationOf, schemaVersion, versionOf } from '../core/store/schema.js'
import { loadSqlite } from '../core/store/sqlite.js'
import type { SeenLine } from './etcd-log.js'
import { type FileLog, openFileLog } from '../core/store/file-log.js'
import { createTurns } from './signals.js'

/** The database of a hub, in memory and on its disk. */
export interface LocalCopy {
  readonly memory: LiveMemory
  readonly path: string
  readonly pages: Verification
  /** The number of the last write in memory that is durable. */
  readonly applied: number
  /** Why the redo log lacks writes that memory has; null if it has all. Then `heal` is needed. */
  readonly fault: Error | null
  /** Time since svc.db was written, when it was opened. */
  readonly ageMs: number
  /** The schema version of the database. */
  readonly schema: number
  /** Which log it belongs to; null if to none. */
  readonly belonging: Belonging | null
  /** The numbers of writes for checkpoints and images: those of the leader's queue while there is one. */
  commits: Pick<GroupCommit, 'executed' | 'settled' | 'between'> | null
  /** Applies what follows `applied` in the line, and writes it to the redo log: both, or neither. */
  apply(line: LogLine): Promise<void>
  /** Writes transactions that memory already has to the redo log. If that fails, there is a `fault`. */
  record(first: number, transactions: string[]): Promise<void>
  /** Writes svc.db from memory, so that nothing is missing on the disk. */
  heal(): Promise<void>
  /** Migrates the database to the schema of this program, as a server does at its start. */
  upgrade(): Promise<void>
  /** Replaces the database by an image, which becomes part of this log. */
  replace(image: AsyncIterable<Uint8Array>, belonging: Belonging): Promise<void>
  belong(belonging: Belonging): Promise<void>
  /** Keeps which line of the log it has, for the next start. */
  note(seen: SeenLine): Promise<void>
  image(at?: () => void): Promise<Image>
  checkpoint(): Promise<void>
  /** To be called after each write. */
  consider(): void
  /** Writes a checkpoint and closes the files. */
  close(): Promise<void>
}

interface LocalCopyOptions {
  directory: string
  disk: Disk
  clock: Clock
  warn: (sentence: string) => void
  /** Maximum size of the database that another hub sends. */
  maxImageBytes?: number
}

const idleMs = 30 * 1000
const foldBytes = 4 * 1024 * 1024
/** A transaction travels to etcd in one line, in parts. */
const maxLength = 32 * 1024 * 1024
/** Maximum size of the database of another hub. SQLite holds it in memory of 32-bit addresses. */
const defaultImageBytes = 2 * 1024 ** 3

/** Opens the database in `directory`, or an empty one in memory. Refuses like `openStore`. */
export async function openLocalCopy(options: LocalCopyOptions): Promise<LocalCopy> {
  const { directory, disk, clock, warn, maxImageBytes = defaultImageBytes } = options
  const databasePath = join(directory, 'svc.db')
  const redoPath = join(directory, 'svc.db.redo')
  const sqlite = await loadSqlite()
  const belongingFile = createBelongingFile(directory, disk)
  let belonging = belongingFile.read()
  const files = { sqlite, disk, databasePath, redoPath }
  const turns = createTurns()

  let recovered = await recoverWhat(files, belonging !== null, warn)
  let applied = recovered.sequence
  let fault: Error | null = null
  let redo = logOf(recovered)
  const memory = new LiveMemory({
    memory: recovered.memory,
    recover() {
      const again = recover({ ...files, redoEnd: redo.end })
      recovered = again
      applied = again.sequence
      fault = null
      return again.memory
    },
    clock,
    maxLength
  })
  let pages = createVerification({ path: databasePath, isChecked: recovered.isChecked, warn })
  let checkpoints = checkpointsOf()

  function logOf({ redo: found, sequence }: Recovered): FileLog {
    const { end = 0, torn = false, after = 0 } = found ?? {}
    return openFileLog({ disk: unsynced(disk), path: redoPath, end, torn, after, last: sequence })
  }

  function checkpointsOf(): Checkpoints {
    return createCheckpoints({
      disk,
      path: databasePath,
      clock,
      redo,
      commits: {
        get executed() {
          return copy.commits?.executed ?? applied
        },
        settled: () => copy.commits?.settled() ?? Promise.resolve(),
        between: turns
      },
      memory: () => memory.get(),
      verified: () => pages.verified(),
      held: recovered.held ?? 0,
      idleMs,
      foldBytes,
      warn
    })
  }

  const copy: LocalCopy = {
    memory,
    path: databasePath,
    ageMs: ageOf(recovered.memory, clock),
    commits: null,
    get pages() {
      return pages
    },
    get applied() {
      return applied
    },
    get fault() {
      return fault
    },
    get schema() {
      return versionOf(memory.get())
    },
    get belonging() {
      return belonging
    },
    apply({ first, transactions }) {
      return turns(async () => {
        if (first > applied + 1) throw new Trimmed(applied, first - 1)
        const fresh = transactions.slice(applied + 1 - first)
        if (fresh.length === 0) return
        if (fresh.some(calls => migrationOf(calls) !== null)) await keepBefore()
        // First in memory: a line that SQLite refuses changes nothing, and is not on the disk at the next start.
        memory.apply(fresh)
        const from = applied + 1
        applied += fresh.length
        await redo.append(from, fresh.map(encodeTransaction)).catch((error: unknown) => {
          memory.replace()
          throw error
        })
      })
    },
    record(first, transactions) {
      return turns(async () => {
        if (fault === null) {
          await redo.append(first, transactions).catch((error: Error) => {
            fault = error
            warn(`Cannot write to "${redoPath}": ${error.message}. This hub stops leading until it can`)
          })
        }
        applied = first + transactions.length - 1
      })
    },
    async heal() {
      await checkpoints.fold({ force: true })
      fault = null
    },
    async upgrade() {
      await upgrade(recovered, { disk, clock, databasePath })
      await checkpoints.fold({ force: true })
    },
    async replace(image, next) {
      const beside = `${databasePath}.image`
      await receive({ disk, path: beside, maxBytes: maxImageBytes }, image).catch(async (error: unknown) => {
        await disk.remove(beside).catch(() => {})
        throw error
      })
      await checkImage(beside, next)
      await checkpoints.stop()
      pages.stop()
      await turns(async () => {
        // Until it is written again, the next start takes an image again, whatever of this had happened.
        belonging = null
        await belongingFile.remove()
        await redo.close()
        await disk.remove(redoPath)
        await disk.rename(beside, databasePath)
        await disk.syncDirectory(directory)
        memory.replace()
        redo = logOf(recovered)
        await redo.trim(applied)
        pages = createVerification({ path: databasePath, isChecked: recovered.isChecked, warn })
        checkpoints = checkpointsOf()
      })
      await copy.belong(next)
    },
    async belong(next) {
      await belongingFile.write(next)
      belonging = next
    },
    note: seen =>
      turns(async () => {
        if (belonging !== null && belonging.seen?.tag !== seen.tag) await copy.belong({ ...belonging, seen })
      }),
    async image(at = () => {}) {
      await pages.verified()
      const upTo = copy.commits?.executed ?? applied
      const taken = stampedImage(memory.get(), upTo, clock)
      try {
        at()
        await (copy.commits?.settled() ?? Promise.resolve()).catch((error: unknown) => {
          if (applied < upTo) throw error
        })
        return taken
      } catch (error) {
        taken.release()
        throw error
      }
    },
    checkpoint: () => checkpoints.fold(),
    consider: () => checkpoints.consider(),
    async close() {
      memory.beginClosing()
      pages.stop()
      await checkpoints.stop()
      if (!memory.isGone) await checkpoints.fold().catch((error: Error) => warn(error.message))
      await redo.close()
      memory.close()
    }
  }
  if (recovered.held !== null && recovered.redo === null) await redo.trim(applied)
  else if ((recovered.redo?.lines.length ?? 0) > 0) checkpoints.begin()
  return copy

  /** Keeps the database as it was before a migration, for a return to the older program. */
  async function keepBefore(): Promise<void> {
    const image = stampedImage(memory.get(), applied, clock)
    try {
      await replaceFile(disk, `${databasePath}.schema-${versionOf(memory.get())}`, image)
    } finally {
      image.release()
    }
  }

  /** Refuses an image that is not a database of svc, or a newer one. */
  async function checkImage(path: string, { cluster }: Belonging): Promise<void> {
    const file = await loadDatabase({ disk, databasePath: path })
    const image = createMemory(sqlite, file ?? [])
    try {
      const version = versionOf(image)
      if (version <= schemaVersion) return
      throw new Refusal(
        'unsupported',
        'database_newer',
        `Cannot take over the database of the cluster "${cluster}": it has schema version ${version}, but this svc supports at most ${schemaVersion}. Install the newer svc on this hub`
      )
    } finally {
      image.close()
    }
  }
}

/** Recovers from svc.db and the redo log, or from svc.db alone if a power cut has damaged the redo log of a hub. */
async function recoverWhat(
  files: Omit<Parameters<typeof recover>[0], 'file' | 'redoEnd'>,
  isHub: boolean,
  warn: (sentence: string) => void
): Promise<Recovered> {
  const { disk, databasePath, redoPath } = files
  try {
    return recover({ ...files, file: await loadDatabase({ disk, databasePath }) })
  } catch (error) {
    const isDamaged = error instanceof Refusal && ['redo_damaged', 'database_outdated'].includes(error.code)
    if (!isHub || !isDamaged) throw error
    warn(`${error.message}. This hub reads these writes from etcd again`)
    await disk.remove(redoPath)
    await disk.syncDirectory(dirname(redoPath))
    return recover(files)
  }
}

function ageOf(memory: Recovered['memory'], clock: Clock): number {
  if (versionOf(memory) === 0) return 0
  const writtenAt = memory.get('SELECT writtenAt FROM store')?.['writtenAt']
  return typeof writtenAt === 'string' ? Math.max(0, clock.now() - Date.parse(writtenAt)) : 0
}

/** Writes an image to a file. Refuses `image_too_large` before it writes beyond the limit. */
async function receive(
  { disk, path, maxBytes }: { disk: Disk; path: string; maxBytes: number },
  image: AsyncIterable<Uint8Array>
): Promise<void> {
  const file = await disk.create(path)
  try {
    let at = 0
    for await (const piece of image) {
      if (at + piece.length > maxBytes) throw tooLarge(maxBytes)
      await file.write(piece, at)
      at += piece.length
    }
    await file.sync()
  } finally {
    await file.close()
  }
}

function tooLarge(maxBytes: number): Refusal {
  const sentence = `The database that another hub sends has more than ${maxBytes} bytes, so this hub does not take it`
  return new Refusal('unavailable', 'image_too_large', sentence)
}

/** The same disk with files that are not synced. */
function unsynced(disk: Disk): Disk {
  const plain = (file: DiskFile): DiskFile => ({ ...file, sync: async () => {} })
  return {
    ...disk,
    open: async path => plain(await disk.open(path)),
    create: async path => plain(await disk.create(path))
  }
}

/** Which log a database belongs to. */
export interface Belonging {
  cluster: string
  history: string
  /** A line of the log that the database has (etcd-log.ts). */
  seen?: SeenLine | null
}

/** The file `svc.db.cluster` of a hub: which log its svc.db belongs to. */
export type BelongingFile = ReturnType<typeof createBelongingFile>

/** Returns the file in a data directory, which may not exist. */
export function createBelongingFile(directory: string, disk: Disk) {
  const path = join(directory, 'svc.db.cluster')
  return {
    /** Returns null if the database belongs to no log. */
    read(): Belonging | null {
      const bytes = disk.read(path)
      return bytes === null ? null : (JSON.parse(Buffer.from(bytes).toString()) as Belonging)
    },
    write(belonging: Belonging): Promise<void> {
      const bytes = Buffer.from(JSON.stringify(belonging))
      return replaceFile(disk, path, { bytes: bytes.length, pieces: [bytes], release() {} })
    },
    async remove(): Promise<void> {
      await disk.remove(path)
      await disk.syncDirectory(directory)
    }
  }
}
