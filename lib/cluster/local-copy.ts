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
import { createMemory, loadSqlite } from '../core/store/memory.js'
import type { Image } from '../core/store/page-file.js'
import { createVerification, upgrade, type Verification } from '../core/store/durable-store.js'
import { encodeTransaction, type LogLine, Trimmed, type FileLog, openFileLog } from '../core/store/redo.js'
import { migrationOf, schemaVersion, versionOf } from '../core/store/schema.js'
import type { SeenLine } from './etcd-log.js'
import { createTurns } from './signals.js'

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
  const { directory, disk, warn } = options
  const databasePath = join(directory, 'svc.db')
  const files = { sqlite: await loadSqlite(), disk, databasePath, redoPath: join(directory, 'svc.db.redo') }
  const belongingFile = createBelongingFile(directory, disk)
  const belonging = belongingFile.read()
  const recovered = await recoverWhat(files, belonging !== null, warn)
  const copy = new LocalCopy({ ...options, ...files, belongingFile }, recovered, belonging)
  await copy.begin()
  return copy
}

type Files = Omit<Parameters<typeof recover>[0], 'file' | 'redoEnd'>
type Opened = LocalCopyOptions & Files & { belongingFile: BelongingFile }

/** The database of a hub, in memory and on its disk. */
export class LocalCopy {
  readonly memory: LiveMemory
  readonly path: string
  /** Time since svc.db was written, when it was opened. */
  readonly ageMs: number
  /** The numbers of writes for checkpoints and images: those of the leader's queue while there is one. */
  commits: Pick<GroupCommit, 'executed' | 'settled' | 'between'> | null = null
  readonly #opened: Opened
  readonly #turns = createTurns()
  #recovered: Recovered
  #belonging: Belonging | null
  #applied: number
  #fault: Error | null = null
  #redo: FileLog
  #pages: Verification
  #checkpoints: Checkpoints

  constructor(opened: Opened, recovered: Recovered, belonging: Belonging | null) {
    this.#opened = opened
    this.#recovered = recovered
    this.#belonging = belonging
    this.#applied = recovered.sequence
    this.#redo = this.#openRedo()
    this.path = opened.databasePath
    this.ageMs = ageOf(recovered.memory, opened.clock)
    this.memory = new LiveMemory({
      memory: recovered.memory,
      recover: () => {
        this.#recovered = recover({ ...opened, redoEnd: this.#redo.end })
        this.#applied = this.#recovered.sequence
        this.#fault = null
        return this.#recovered.memory
      },
      clock: opened.clock,
      maxLength
    })
    this.#pages = this.#verification()
    this.#checkpoints = this.#createCheckpoints()
  }

  /** Brings the redo log in line with svc.db after the opening. */
  async begin(): Promise<void> {
    if (this.#recovered.held !== null && this.#recovered.redo === null) await this.#redo.trim(this.#applied)
    else if ((this.#recovered.redo?.lines.length ?? 0) > 0) this.#checkpoints.begin()
  }

  get pages(): Verification {
    return this.#pages
  }

  /** The number of the last write in memory that is durable. */
  get applied(): number {
    return this.#applied
  }

  /** Why the redo log lacks writes that memory has; null if it has all. Then `heal` is needed. */
  get fault(): Error | null {
    return this.#fault
  }

  /** The schema version of the database. */
  get schema(): number {
    return versionOf(this.memory.get())
  }

  /** Which log it belongs to; null if to none. */
  get belonging(): Belonging | null {
    return this.#belonging
  }

  /** Applies what follows `applied` in the line, and writes it to the redo log: both, or neither. */
  apply({ first, transactions }: LogLine): Promise<void> {
    return this.#turns(async () => {
      if (first > this.#applied + 1) throw new Trimmed(this.#applied, first - 1)
      const fresh = transactions.slice(this.#applied + 1 - first)
      if (fresh.length === 0) return
      if (fresh.some(calls => migrationOf(calls) !== null)) await this.#keepBefore()
      // First in memory: a line that SQLite refuses changes nothing, and is not on the disk at the next start.
      this.memory.apply(fresh)
      const from = this.#applied + 1
      this.#applied += fresh.length
      await this.#redo.append(from, fresh.map(encodeTransaction)).catch((error: unknown) => {
        this.memory.replace()
        throw error
      })
    })
  }

  /** Writes transactions that memory already has to the redo log. If that fails, there is a `fault`. */
  record(first: number, transactions: string[]): Promise<void> {
    return this.#turns(async () => {
      if (this.#fault === null) {
        await this.#redo.append(first, transactions).catch((error: Error) => {
          this.#fault = error
          const { warn, redoPath } = this.#opened
          warn(`Cannot write to "${redoPath}": ${error.message}. This hub stops leading until it can`)
        })
      }
      this.#applied = first + transactions.length - 1
    })
  }

  /** Writes svc.db from memory, so that nothing is missing on the disk. */
  async heal(): Promise<void> {
    await this.#checkpoints.fold({ force: true })
    this.#fault = null
  }

  /** Migrates the database to the schema of this program, as a server does at its start. */
  async upgrade(): Promise<void> {
    const { disk, clock, databasePath } = this.#opened
    await upgrade(this.#recovered, { disk, clock, databasePath })
    await this.#checkpoints.fold({ force: true })
  }

  /** Replaces the database by an image, which becomes part of this log. */
  async replace(image: AsyncIterable<Uint8Array>, next: Belonging): Promise<void> {
    const { disk, belongingFile, directory, databasePath, redoPath, maxImageBytes = defaultImageBytes } = this.#opened
    const beside = `${databasePath}.image`
    await receive({ disk, path: beside, maxBytes: maxImageBytes }, image).catch(async (error: unknown) => {
      await disk.remove(beside).catch(() => {})
      throw error
    })
    await this.#checkImage(beside, next)
    await this.#checkpoints.stop()
    this.#pages.stop()
    await this.#turns(async () => {
      // Until it is written again, the next start takes an image again, whatever of this had happened.
      this.#belonging = null
      await belongingFile.remove()
      await this.#redo.close()
      await disk.remove(redoPath)
      await disk.rename(beside, databasePath)
      await disk.syncDirectory(directory)
      this.memory.replace()
      this.#redo = this.#openRedo()
      await this.#redo.trim(this.#applied)
      this.#pages = this.#verification()
      this.#checkpoints = this.#createCheckpoints()
    })
    await this.belong(next)
  }

  async belong(next: Belonging): Promise<void> {
    await this.#opened.belongingFile.write(next)
    this.#belonging = next
  }

  /** Keeps which line of the log it has, for the next start. */
  note(seen: SeenLine): Promise<void> {
    return this.#turns(async () => {
      if (this.#belonging !== null && this.#belonging.seen?.tag !== seen.tag)
        await this.belong({ ...this.#belonging, seen })
    })
  }

  async image(at: () => void = () => {}): Promise<Image> {
    await this.#pages.verified()
    const upTo = this.#executed()
    const taken = stampedImage(this.memory.get(), upTo, this.#opened.clock)
    try {
      at()
      await this.#settled().catch((error: unknown) => {
        if (this.#applied < upTo) throw error
      })
      return taken
    } catch (error) {
      taken.release()
      throw error
    }
  }

  checkpoint(): Promise<void> {
    return this.#checkpoints.fold()
  }

  /** To be called after each write. */
  consider(): void {
    this.#checkpoints.consider()
  }

  /** Writes a checkpoint and closes the files. */
  async close(): Promise<void> {
    this.memory.beginClosing()
    this.#pages.stop()
    await this.#checkpoints.stop()
    if (!this.memory.isGone) await this.#checkpoints.fold().catch((error: Error) => this.#opened.warn(error.message))
    await this.#redo.close()
    this.memory.close()
  }

  #executed(): number {
    return this.commits?.executed ?? this.#applied
  }

  async #settled(): Promise<void> {
    await this.commits?.settled()
  }

  #openRedo(): FileLog {
    const { redo, sequence } = this.#recovered
    const { end = 0, torn = false, after = 0 } = redo ?? {}
    const { disk, redoPath } = this.#opened
    return openFileLog({ disk: unsynced(disk), path: redoPath, end, torn, after, last: sequence })
  }

  #verification(): Verification {
    const { databasePath: path, warn } = this.#opened
    return createVerification({ path, isChecked: this.#recovered.isChecked, warn })
  }

  #createCheckpoints(): Checkpoints {
    const { disk, clock, warn, databasePath } = this.#opened
    const executed = () => this.#executed()
    return createCheckpoints({
      disk,
      path: databasePath,
      clock,
      redo: this.#redo,
      commits: {
        get executed() {
          return executed()
        },
        settled: () => this.#settled(),
        between: this.#turns
      },
      memory: () => this.memory.get(),
      verified: () => this.#pages.verified(),
      held: this.#recovered.held ?? 0,
      idleMs,
      foldBytes,
      warn
    })
  }

  /** Keeps the database as it was before a migration, for a return to the older program. */
  async #keepBefore(): Promise<void> {
    const { clock, disk, databasePath } = this.#opened
    const image = stampedImage(this.memory.get(), this.#applied, clock)
    try {
      await replaceFile(disk, `${databasePath}.schema-${versionOf(this.memory.get())}`, image)
    } finally {
      image.release()
    }
  }

  /** Refuses an image that is not a database of svc, or a newer one. */
  async #checkImage(path: string, { cluster }: Belonging): Promise<void> {
    const { disk, sqlite } = this.#opened
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
async function recoverWhat(files: Files, isHub: boolean, warn: (sentence: string) => void): Promise<Recovered> {
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
