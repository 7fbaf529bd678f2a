/**
 * The store: SQLite in memory, made durable by a redo log and checkpoints.
 *
 *   svc.db          always a complete, ordinary SQLite file, as of some write
 *   svc.db.redo     the writes since then (redo.ts)
 *   *.tmp           a file being written; not valid before it is renamed
 *
 * A write runs in memory at once and is answered when its line of the redo log is on the disk. A reader may therefore
 * see a write a moment before it is durable; whoever must not, reads inside `write`, which waits for all before it.
 *
 * When a line cannot be written (disk full), every write that waits is refused and memory is rebuilt from the disk.
 * `state().ok` is false from then until a write succeeds. When even that fails, there is no memory to read from: reads
 * are refused; each write, and a read now and then, first tries to rebuild it. A large svc.db that turns out to be damaged while it is in use
 * (page-check-thread.ts) is read on, but no longer written.
 *
 * The caller owns the directory (owner.ts): two stores on one would spoil it.
 */
import { join } from 'node:path'
import type { SqlJsStatic } from 'sql.js'
import { elapsedOf, systemClock } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { Refusal } from '../base/refusal.js'
import { createHistogram } from '../base/histogram.js'
import type { HistogramFigures } from '../base/histogram.js'
import { codeOf, isDiskFull, messageOf } from '../base/system-error.js'
import { createCheckpoints, stampedImage } from './checkpoint.js'
import { realDisk } from './disk.js'
import type { Disk } from './disk.js'
import { createFollowers } from './followers.js'
import type { Followed } from './followers.js'
import { createGroupCommit } from './group-commit.js'
import type { Memory } from './memory.js'
import type { Image } from './page-file.js'
import { damaged, loadDatabase, recover } from './recovery.js'
import { encodeLine, encodeTransaction } from './redo.js'
import type { Call } from './redo.js'
import { openRedoFile } from './redo-file.js'
import { loadSqlite } from './sqlite.js'
import { upgrade } from './upgrade.js'
import { createVersions } from './versions.js'

export type Value = string | number | null | Uint8Array

export interface Reader {
  /** The first row, as an object by column name. */
  get<T>(sql: string, ...values: Value[]): T | undefined
  /** All rows. */
  all<T>(sql: string, ...values: Value[]): T[]
}

export interface Transaction extends Reader {
  /** Runs one INSERT, UPDATE or DELETE; gives the number of changed rows. */
  run(sql: string, ...values: Value[]): number
}

export interface StoreState {
  /** Whether the last write could be made durable. */
  ok: boolean
  /** Of svc.db. */
  path: string
  /** Why not. */
  error: string | null
}

export interface Store extends Reader {
  /**
   * Runs `work` at once, in a transaction in memory; resolves with its result once that is durable. A throw rolls back
   * and rejects. `work` is synchronous. Refuses: `disk_full`, `write_failed`, `shutting_down`, `database_unavailable`.
   */
  write<T>(work: (tx: Transaction) => T): Promise<T>
  state(): StoreState
  /** Grows whenever memory changes: what was read at one revision is so until the next. */
  revision(): number
  /** The number of the last durable write, which a new database, or an older copy of this one, does not have. */
  sequence(): number
  /** Seconds that lines of the redo log took to be written and synced, since the start. */
  syncs(): HistogramFigures
  /** For who keeps what it read of a table: which rows of it are written to from now on. */
  follow(table: string): Followed
  /** Text that changes whenever one of these tables does (versions.ts); good within this process only. */
  version(tables: readonly string[]): string
  /** Folds the redo log into svc.db. */
  checkpoint(): Promise<void>
  /**
   * The database as a SQLite file, as it is at one moment, which `at` shares: nothing else runs between the two. Resolves
   * once every write that is in it is durable. The caller releases it. Refuses `disk_full`, `write_failed`,
   * `database_unavailable`.
   */
  image(at?: () => void): Promise<Image>
  /** Waits for the writes that were begun, folds, and lets go of the files. */
  close(): Promise<void>
}

export interface StoreOptions {
  /** It exists, and the caller owns it. */
  directory: string
  /** As `loadSqlite` gives it, where that was begun before. */
  sqlite?: Promise<SqlJsStatic> | undefined
  clock?: Clock
  disk?: Disk
  /** What a checkpoint in the background met: a sentence. The writes themselves are safe. */
  warn?: (sentence: string) => void
  /** Without a write for this long, the redo log is folded in. */
  idleMs?: number
  /** The redo log is folded in once it is this long, and an eighth of svc.db, so that folding costs no more than writing. */
  foldBytes?: number
}

const defaultIdleMs = 30 * 1000
const defaultFoldBytes = 4 * 1024 * 1024
/** A large svc.db is looked at when the start is over, or when it is to be written anew. */
const verifyAfterMs = 2000
/** Where memory could not be rebuilt, a read tries it again after so long: nobody may write for hours. */
const rebuildMs = 1000
const syncBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
/** One transaction as text; what V8 takes as one string is 512 Mi characters. */
const maxTransactionLength = 256 * 1024 * 1024

/** Opens svc.db in `directory`, or begins it. Refuses what `recover` refuses. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { directory, clock = systemClock, disk = realDisk, warn = () => {} } = options
  const { idleMs = defaultIdleMs, foldBytes = defaultFoldBytes } = options
  const databasePath = join(directory, 'svc.db')
  const redoPath = join(directory, 'svc.db.redo')
  const loading = loadDatabase({ disk, databasePath })
  const [file, sqlite] = await Promise.all([loading, options.sqlite ?? loadSqlite()])
  const files = { sqlite, disk, databasePath, redoPath }

  const recovered = recover({ ...files, file })
  const migrated = await upgrade(recovered, { disk, clock, databasePath })
  let memory: Memory | null = recovered.memory
  let failure: string | null = null
  let rebuiltAtMs = -Infinity
  let isWriting = false
  /** What the write that is being made has changed so far. */
  let unfinished: Call[] = []
  let revision = 0
  const versions = createVersions()
  let closing: Promise<void> | null = null
  let damage: Refusal | null = null
  let verifying: Promise<void> | null = recovered.isChecked ? Promise.resolve() : null

  const followers = createFollowers(() => unfinished.length > 0)
  memory.follow(followers.touch)

  const redo = openRedoFile({ disk, path: redoPath, end: recovered.redo?.end ?? 0, torn: recovered.redo?.torn ?? false })
  const syncs = createHistogram(syncBounds)
  const commits = createGroupCommit({
    durable: recovered.sequence,
    async append(first, transactions) {
      const fromMs = performance.now()
      await redo.append(encodeLine(first, transactions))
      syncs.observe((performance.now() - fromMs) / 1000)
    },
    onDurable() {
      failure = null
      checkpoints.consider()
    },
    onFailure(error) {
      failure = reasonOf(error)
      rebuild()
      return notSaved(error)
    }
  })
  const beginVerifying = setTimeout(() => void verified().catch(() => {}), verifyAfterMs).unref()
  const held = recovered.held ?? 0
  const checkpoints = createCheckpoints({
    disk,
    path: databasePath,
    clock,
    redo,
    commits,
    memory: live,
    verified,
    held,
    idleMs,
    foldBytes,
    warn
  })

  /** Looks at the pages of a svc.db that was too large to be looked at before; once. */
  function verified(): Promise<void> {
    return (verifying ??= verify())
  }

  async function verify(): Promise<void> {
    // Few are so large that threads must be loaded for them.
    const { faultOfPagesInThread } = await import('./page-check-thread.js')
    const fault = await faultOfPagesInThread(databasePath)
    if (fault === null) return
    damage = damaged(databasePath, fault)
    warn(damage.message)
    throw damage
  }

  /** Memory becomes what the disk holds, after a write in it could not be made durable. */
  function rebuild(): void {
    rebuiltAtMs = elapsedOf(clock)
    revision++
    followers.touchAll()
    versions.countAll()
    memory?.close()
    memory = null
    try {
      memory = recover({ ...files, redoEnd: redo.end }).memory
      memory.follow(followers.touch)
    } catch (error) {
      failure = reasonOf(error)
    }
  }

  function live(): Memory {
    if (memory === null && closing === null && elapsedOf(clock) - rebuiltAtMs >= rebuildMs) rebuild()
    if (memory === null) {
      throw new Refusal('unavailable', 'database_unavailable', `the database is not available: ${failure ?? 'it is closed'}`)
    }
    return memory
  }

  /** Runs `work` in memory; gives its result and what it changed, as the redo log will say it. */
  function execute<T>(work: (tx: Transaction) => T): { result: T; text: string | null } {
    if (isWriting) throw new Error('a write may not begin inside another')
    const calls: Call[] = []
    const recorder = transactionOf(live(), calls)
    isWriting = true
    unfinished = calls
    try {
      return live().transaction(() => {
        const result = work(recorder.tx)
        if (result instanceof Promise) throw new Error('the work of a write may not wait')
        return { result, text: calls.length === 0 ? null : withinLimit(encodeTransaction(calls)) }
      })
    } finally {
      recorder.end()
      isWriting = false
      unfinished = []
      revision++
      versions.count(calls)
    }
  }

  async function image(at: () => void = () => {}): Promise<Image> {
    await verified()
    const upTo = commits.executed
    const taken = stampedImage(live(), upTo, clock)
    try {
      at()
      await commits.settled().catch((error: unknown) => {
        // An earlier or a later write may have been refused, which is not in it.
        if (commits.durable < upTo) throw error
      })
      return taken
    } catch (error) {
      taken.release()
      throw error
    }
  }

  async function close(): Promise<void> {
    clearTimeout(beginVerifying)
    await commits.settled().catch(() => {})
    await checkpoints.stop()
    if (memory !== null) {
      await checkpoints.fold().catch((error: Error) => warn(`"${databasePath}" was not written anew at the end: ${error.message}`))
    }
    await redo.close()
    memory?.close()
    memory = null
    failure = null
  }

  if (recovered.held === null || recovered.redo === null || migrated > 0) await checkpoints.fold({ force: true })
  else if (recovered.redo.lines.length > 0) checkpoints.begin()

  return {
    get: (sql, ...values) => live().get(sql, ...values),
    all: (sql, ...values) => live().all(sql, ...values),
    async write(work) {
      if (closing !== null) throw new Refusal('unavailable', 'shutting_down', 'the change was not saved: the service is stopping')
      if (damage !== null) throw damage
      if (memory === null) rebuild()
      const { result, text } = execute(work)
      await (text === null ? commits.settled() : commits.push(text))
      return result
    },
    state() {
      const error = damage?.message ?? failure
      return { ok: error === null, path: databasePath, error }
    },
    revision: () => revision,
    sequence: () => commits.durable,
    syncs: syncs.figures,
    follow: followers.follow,
    version: tables => versions.of(tables),
    checkpoint: () => checkpoints.fold(),
    image,
    close: () => (closing ??= close())
  }
}

/** A transaction that records what it runs, until its work has ended. */
function transactionOf(memory: Memory, calls: Call[]): { tx: Transaction; end: () => void } {
  let isOver = false
  const open = () => {
    if (isOver) throw new Error('the transaction is over')
    return memory
  }
  return {
    tx: {
      get: (sql, ...values) => open().get(sql, ...values),
      all: (sql, ...values) => open().all(sql, ...values),
      run(sql, ...values) {
        const changed = open().run(sql, values)
        calls.push({ sql, values })
        return changed
      }
    },
    end: () => void (isOver = true)
  }
}

function withinLimit(text: string): string {
  if (text.length <= maxTransactionLength) return text
  throw new Refusal('too_large', 'transaction_too_large', 'the change was not saved: it is too large to be made in one piece')
}

function reasonOf(error: unknown): string {
  if (codeOf(error) === 'EDQUOT') return 'the disk quota is used up'
  return isDiskFull(error) ? 'the disk is full' : messageOf(error)
}

function notSaved(error: unknown): Refusal {
  const code = isDiskFull(error) ? 'disk_full' : 'write_failed'
  return new Refusal('unavailable', code, `the change was not saved: ${reasonOf(error)}`, { cause: error })
}
