/**
 * The store: SQLite in memory, made durable by a redo log and checkpoints.
 *
 *   svc.db          always a complete, ordinary SQLite file, as of some write
 *   svc.db.redo     the writes since then (redo.ts)
 *   *.tmp           a file being written; not valid before it is renamed
 *
 * A write runs in memory at once and is answered when its line of the redo log is on the disk. A reader may therefore
 * see a write a moment before it is durable. A read inside `write` is safe: `write` waits for all writes before it.
 *
 * If a line cannot be written (disk full), every waiting write is refused and memory is rebuilt from the disk
 * (live-memory.ts). `state().ok` is false from then until a write succeeds. If a large svc.db turns out to be damaged
 * while it is open (page-check-thread.ts), reads continue and writes are refused.
 *
 * The caller owns the directory (owner.ts): two stores on one directory would damage it.
 */
import { join } from 'node:path'
import type { SqlJsStatic } from 'sql.js'
import { type Clock, systemClock } from '../../base/clock.js'
import { createHistogram } from '../../base/histogram.js'
import { Refusal } from '../../base/errors.js'
import {
  createCheckpoints,
  damaged,
  loadDatabase,
  recover,
  type Recovered,
  replaceFile,
  stampedImage
} from './recovery.js'
import type { Store } from './database.js'
import { type Disk, realDisk } from './disk.js'
import { createGroupCommit, type GroupCommit } from './group-commit.js'
import { LiveMemory } from './live-memory.js'
import { openFileLog } from './redo.js'
import type { Image } from './page-file.js'
import { migrate, schemaVersion, versionOf } from './schema.js'
import { loadSqlite, makeDatabase, type Memory } from './memory.js'

export interface StoreOptions {
  /** An existing directory that the caller owns. */
  directory: string
  /** The result of `loadSqlite`, if the caller has already started loading it. */
  sqlite?: Promise<SqlJsStatic> | undefined
  clock?: Clock
  disk?: Disk
  /** Called with a message when a checkpoint in the background fails, or when svc.db turns out to be damaged. */
  warn?: (sentence: string) => void
  /** Time without a write after which a checkpoint begins. */
  idleMs?: number
  /**
   * Size of the redo log at which a checkpoint begins, provided that it is at least an eighth of svc.db. So checkpoints
   * cost no more than writes.
   */
  foldBytes?: number
}

const defaultIdleMs = 30 * 1000
const defaultFoldBytes = 4 * 1024 * 1024
const syncBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]

/** Opens svc.db in `directory`, or creates it. Refuses like `recover`. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { directory, clock = systemClock, disk = realDisk, warn = () => {} } = options
  const { idleMs = defaultIdleMs, foldBytes = defaultFoldBytes } = options
  const databasePath = join(directory, 'svc.db')
  const redoPath = join(directory, 'svc.db.redo')
  const loading = loadDatabase({ disk, databasePath })
  const [file, sqlite] = await Promise.all([loading, options.sqlite ?? loadSqlite()])
  const made = file === null ? await makeDatabase(memory => newest(memory, clock)) : null
  const files = { sqlite, disk, databasePath, redoPath, made }

  const recovered = recover({ ...files, file })
  const migrated = await upgrade(recovered, { disk, clock, databasePath })
  const { end = 0, torn = false, after = 0 } = recovered.redo ?? {}
  const redo = openFileLog({ disk, path: redoPath, end, torn, after, last: recovered.sequence })
  const memory = new LiveMemory({
    memory: recovered.memory,
    recover: () => recover({ ...files, redoEnd: redo.end }).memory,
    clock
  })
  const syncs = createHistogram(syncBounds)
  const commits = createGroupCommit({
    durable: recovered.sequence,
    async append(first, transactions) {
      const fromMs = performance.now()
      await redo.append(first, transactions)
      syncs.observe((performance.now() - fromMs) / 1000)
    },
    onDurable() {
      memory.succeed()
      checkpoints.consider()
    },
    onFailure: error => memory.fail(error)
  })
  const pages = createVerification({ path: databasePath, isChecked: recovered.isChecked, warn })
  const checkpoints = createCheckpoints({
    disk,
    path: databasePath,
    clock,
    redo,
    commits,
    memory: () => memory.get(),
    verified: pages.verified,
    held: recovered.held ?? 0,
    idleMs,
    foldBytes,
    warn
  })
  let closing: Promise<void> | null = null

  async function close(): Promise<void> {
    memory.beginClosing()
    pages.stop()
    await commits.settled().catch(() => {})
    await checkpoints.stop()
    const failed = (error: Error): void =>
      warn(`Cannot write a checkpoint to "${databasePath}" at shutdown: ${error.message}. No write is lost`)
    if (!memory.isGone) await checkpoints.fold().catch(failed)
    await redo.close()
    memory.close()
  }

  if (recovered.held === null || recovered.redo === null || migrated > 0) await checkpoints.fold({ force: true })
  else if (recovered.redo.lines.length > 0) checkpoints.begin()

  return {
    get: (sql, ...values) => memory.get().get(sql, ...values),
    all: (sql, ...values) => memory.get().all(sql, ...values),
    async write(work) {
      if (closing !== null)
        throw new Refusal('unavailable', 'shutting_down', 'The change was not saved: the service is stopping')
      if (pages.damage !== null) throw pages.damage
      disk.check?.()
      memory.ensure()
      const { result, text } = memory.execute(work)
      await (text === null ? commits.settled() : commits.push(text))
      return result
    },
    state() {
      const error = pages.damage?.message ?? lostOf(disk) ?? memory.failure
      return { ok: error === null, path: databasePath, error }
    },
    revision: () => memory.revision,
    sequence: () => commits.durable,
    syncs: syncs.figures,
    follow: table => memory.follow(table),
    version: tables => memory.versions.of(tables),
    checkpoint: () => checkpoints.fold(),
    async image(at) {
      await pages.verified()
      return takeImage({ memory, commits, clock }, at)
    },
    close: () => (closing ??= close())
  }
}

/** Returns why the directory is not that of this process any more; null if it is. */
function lostOf(disk: Disk): string | null {
  try {
    disk.check?.()
    return null
  } catch (error) {
    return (error as Refusal).message
  }
}

/** Adds the tables to an empty database. Returns the image of it. */
function newest(memory: Memory, clock: Clock): Image {
  migrate(memory)
  return stampedImage(memory, 0, clock)
}

/** Takes an image of what was executed, and waits until that is durable. `at` is called when it has been taken. */
async function takeImage(
  { memory, commits, clock }: { memory: LiveMemory; commits: GroupCommit; clock: Clock },
  at: () => void = () => {}
): Promise<Image> {
  const upTo = commits.executed
  const taken = stampedImage(memory.get(), upTo, clock)
  try {
    at()
    await commits.settled().catch((error: unknown) => {
      // The refused write may be an earlier or a later one that is not in the image.
      if (commits.durable < upTo) throw error
    })
    return taken
  } catch (error) {
    taken.release()
    throw error
  }
}

interface Upgrade {
  disk: Disk
  clock: Clock
  databasePath: string
}

/**
 * Migrates a recovered database in memory to the schema of this program; returns the number of migrations. First it
 * writes the database as it was before, including the redo log, to `svc.db.schema-<version>`, for a return to the older
 * program. Nothing else changes: the checkpoint that follows writes the new svc.db. So after a crash at any point,
 * svc.db is either the old one, from which the next start migrates again, or the new one.
 */
export async function upgrade(
  { memory, held, sequence }: Recovered,
  { disk, clock, databasePath }: Upgrade
): Promise<number> {
  const from = versionOf(memory)
  if (held !== null && from < schemaVersion) {
    const image = stampedImage(memory, sequence, clock)
    try {
      await replaceFile(disk, `${databasePath}.schema-${from}`, image)
    } finally {
      image.release()
    }
  }
  return migrate(memory)
}

/** A large svc.db is checked this long after the start. */
const verifyAfterMs = 2000

/** The check of the pages of a svc.db that was too large to be checked at the start. */
export type Verification = ReturnType<typeof createVerification>

/** Checks the pages of svc.db after a while if `isChecked` is false, or earlier if a checkpoint is about to overwrite it. */
export function createVerification(options: { path: string; isChecked: boolean; warn: (sentence: string) => void }) {
  const { path, isChecked, warn } = options
  let damage: Refusal | null = null
  let running: Promise<void> | null = isChecked ? Promise.resolve() : null

  async function verify(): Promise<void> {
    // Loaded on demand: only a few databases are so large that they need the thread.
    const { faultOfPagesInThread } = await import('./page-check-thread.js')
    const fault = await faultOfPagesInThread(path)
    if (fault === null) return
    damage = damaged(path, fault)
    warn(damage.message)
    throw damage
  }

  const verified = () => (running ??= verify())
  const begin = setTimeout(() => void verified().catch(() => {}), verifyAfterMs).unref()
  return {
    /** Resolves once every page of svc.db was checked; rejects if one is damaged. The check runs once. */
    verified,

    /** The refusal of a damaged svc.db; null if no fault was found so far. */
    get damage() {
      return damage
    },
    stop: (): void => clearTimeout(begin)
  }
}
