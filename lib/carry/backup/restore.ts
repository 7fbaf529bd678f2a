import { instantOf } from '../../base/clock.js'
import { chown, copyFile, lstat, mkdir, open, readdir, readFile, realpath, rmdir, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileSeconds, freeBytes, makeDirectories, replaceFile, syncDirectory, OpenFile } from '../../base/files.js'
import { refuseLooseHome, restoredName } from '../../base/config/home.js'
import { formatBytes } from '../../base/shared/api.js'
import { isDiskFull, nullIfMissing, reasonOf, Refusal } from '../../base/errors.js'
import { ownDirectory } from '../../core/store/owner.js'
import {
  type BackupFile,
  deploymentsName,
  type Reading,
  backupFormat,
  type BackupManifest,
  backupRoot,
  type BackupSummary,
  checkSeal,
  damaged,
  databaseName,
  isInBackup,
  manifestName,
  newer,
  notBackup,
  summaryOf
} from './format.js'
import {
  buildingPrefix,
  commitRestore,
  findContents,
  finishRestore,
  makeAside,
  placesWithin,
  removeUnfinished
} from './place.js'
import { type Kept, readKept, type RestoredFile } from './revoked.js'
import { createHash } from 'node:crypto'
import { createEntryReader } from '../../core/archive/entry-data.js'
import { checkNames } from '../../core/archive/names.js'
import { type Archive, type ArchiveEntry, openArchive } from '../../core/archive/read.js'
import { oneLine } from '../../base/text.js'
import { createMemory, type Memory, loadSqlite } from '../../core/store/memory.js'
import { applicationId, migrate, schemaVersion, versionOf } from '../../core/store/schema.js'
import { deploymentStates } from '../../core/store/tables/deployments.js'
import { withNodes } from '../../core/store/tables/fleet.js'
import { readProjects } from '../../core/store/tables/projects.js'
import { listSigningKeys } from '../../core/store/tables/signing-keys.js'

/** The target directory and the options of a restore. */
export interface RestoreRequest extends Reading {
  /** The data directory; it need not exist. */
  directory: string
  /** Whether existing files are moved aside; if false, any existing file is refused. */
  force: boolean
  clock: { now(): number }
  ids: { token(): string }
}

/** An undo journal, its owner, and the lists of what the deployment and its script have put in place. */
const besideJournals = /\.(undo|helper|manifest|scripted)$/

/** Number of files that are synced at the same time. */
const syncsAbreast = 16

/** The keys of `svc serve --require-signatures`. */
const signersName = 'keys/allowed_signers'

/** The result of a restore. */
export interface Restored {
  /** The directory that the old files were moved to; null if there were none. */
  aside: string | null
  /** What is kept of the replaced database; null if there was none that can be read. */
  kept: Kept | null
  /** Whether `keys/allowed_signers` stays as it was, and differs from that of the backup. */
  signers: boolean
}

/**
 * Replaces the contents of a data directory with a backup, all of it or nothing (place.ts), accessible to its owner
 * only. Refuses `in_use`, `not_empty`, `no_space`, `backup_damaged`, `unsafe_home`, `restore_unfinished`.
 */
export async function restoreBackup(backup: Backup, request: RestoreRequest): Promise<Restored> {
  const made = await makeDirectories(request.directory, 0o700)
  try {
    const directory = await realpath(request.directory)
    await refuseLooseHome(directory)
    const owner = await ownDirectory(directory)
    try {
      const restored = await restoreInto(directory, backup, request)
      await finishRestore(directory).catch((error: unknown) => {
        throw notFinished(directory, error)
      })
      return restored
    } finally {
      await owner.release()
    }
  } catch (error) {
    if (made !== undefined) await removeEmpty(request.directory, made)
    throw error
  }
}

/** Refuses (`conflict`, `not_empty`) a data directory that contains files. */
export async function refuseContents(directory: string): Promise<void> {
  const [first, ...others] = await findContents(directory)
  if (first === undefined) return
  const what = others.length === 0 ? `"${first}"` : `"${first}" and ${others.length} more`
  const sentence = `Cannot restore into "${directory}": the data directory is not empty, it contains ${what}. Choose another with SVC_HOME, or use --force to move the existing files aside`
  throw new Refusal('conflict', 'not_empty', sentence)
}

async function restoreInto(directory: string, backup: Backup, request: RestoreRequest): Promise<Restored> {
  await finishRestore(directory)
  if (!request.force) await refuseContents(directory)
  await refuseFull(directory, backup.summary.bytes)
  const building = join(directory, buildingPrefix + request.ids.token().slice(0, 8))
  try {
    const kept = await readKept(directory)
    await build(building, backup, { ...request, kept })
    const signers = await keepSigners(directory, placesWithin(building).data)
    await keepJournals(directory, placesWithin(building).data)
    const isOccupied = (await findContents(directory)).length > 0
    const at = instantOf(request.clock).slice(0, 19).replaceAll(':', '-')
    const aside = isOccupied ? await makeAside(directory, building, at) : null
    await giveTo(directory, aside === null ? [building] : [building, aside])
    request.signal?.throwIfAborted()
    await commitRestore(directory, building)
    return { aside, kept, signers }
  } catch (error) {
    await removeUnfinished(building)
    throw explain(error, directory)
  }
}

async function build(
  building: string,
  backup: Backup,
  { onProgress, signal, kept }: Reading & { kept: Kept | null }
): Promise<void> {
  const { data } = placesWithin(building)
  const placeOf = ({ path }: BackupFile): string => join(data, ...path.split('/'))
  const directories = new Set([data, join(data, deploymentsName), ...backup.files.map(file => dirname(placeOf(file)))])
  for (const directory of directories) await mkdir(directory, { recursive: true, mode: 0o700 })
  await backup.readAll({ ...(onProgress && { onProgress }), signal, write: writerInto(placeOf) })
  const restored: RestoredFile = { backupAt: backup.summary.createdAt, ...(kept ?? { revoked: [], sequences: {} }) }
  await replaceFile(join(data, restoredName), JSON.stringify(restored), 0o600)
  const waiting = [...backup.files]
  const settle = async (): Promise<void> => {
    for (let file = waiting.pop(); file !== undefined; file = waiting.pop())
      await settleFile(placeOf(file), file.mtimeMs)
  }
  await Promise.all(Array.from({ length: syncsAbreast }, settle))
  for (const directory of directories) await syncDirectory(directory)
}

/**
 * Keeps the list of allowed signers that the owner of the machine has there, if there is one: that of the backup may have keys
 * that were removed since. Returns whether it kept another one than the backup has.
 */
async function keepSigners(directory: string, data: string): Promise<boolean> {
  const [own, backedUp] = await Promise.all(
    [directory, data].map(top => readFile(join(top, signersName)).catch(() => null))
  )
  if (own == null || backedUp?.equals(own)) return false
  await mkdir(join(data, 'keys'), { recursive: true, mode: 0o700 })
  await replaceFile(join(data, signersName), own.toString(), 0o600)
  return true
}

/**
 * Takes over the undo journals of the replaced directory, and what a revert reads with them: they are about targets,
 * which a restore does not change. Without them, a target in the middle of a change stayed so.
 */
async function keepJournals(directory: string, data: string): Promise<void> {
  const names = (await readdir(join(directory, deploymentsName)).catch(nullIfMissing)) ?? []
  const open = new Set(names.filter(name => name.endsWith('.undo')).map(name => name.replace(/undo$/, '')))
  for (const name of names.filter(name => besideJournals.test(name) && open.has(name.replace(besideJournals, '.')))) {
    const [from, to] = [directory, data].map(top => join(top, deploymentsName, name)) as [string, string]
    const { uid, gid, mtimeMs } = await lstat(from)
    await copyFile(from, to)
    if (process.getuid?.() === 0) await chown(to, uid, gid)
    await settleFile(to, mtimeMs)
  }
  await syncDirectory(join(data, deploymentsName))
}

async function settleFile(path: string, mtimeMs: number): Promise<void> {
  await utimes(path, fileSeconds(mtimeMs), fileSeconds(mtimeMs))
  const file = await open(path, 'r+')
  try {
    await file.sync()
  } finally {
    await file.close()
  }
}

/** If root restores for another user, the files are given to that user. */
async function giveTo(directory: string, paths: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await lstat(directory)
  if (uid === 0) return
  const give = async (path: string): Promise<void> => {
    const stats = await lstat(path)
    if (stats.isSymbolicLink()) return
    await chown(path, uid, gid)
    if (stats.isDirectory()) for (const name of await readdir(path)) await give(join(path, name))
  }
  for (const path of paths) await give(path)
}

async function refuseFull(directory: string, bytes: number): Promise<void> {
  const free = await freeBytes(directory)
  // Where it is unknown, writing fails on a full disk.
  if (free === null || free >= bytes) return
  throw noSpace(directory, {
    figures: `: ${formatBytes(bytes)} required, ${formatBytes(free)} free`
  })
}

/** The refusal after the commit: the restore is not undone any more. */
function notFinished(directory: string, cause: unknown): Refusal {
  const sentence = `The backup was restored, but not all files are in place in "${directory}" yet: ${reasonOf(cause)}. The next start or restore finishes it`
  return new Refusal('unavailable', 'restore_unfinished', sentence, { cause })
}

function noSpace(directory: string, { figures = '', cause }: { figures?: string; cause?: unknown }): Refusal {
  const sentence = `Cannot restore into "${directory}": ${reasonOf({ code: 'ENOSPC' })}${figures}. Free some space, or choose another directory with SVC_HOME`
  return new Refusal('unavailable', 'no_space', sentence, { cause })
}

function explain(error: unknown, directory: string): unknown {
  return isDiskFull(error) ? noSpace(directory, { cause: error }) : error
}

/** Removes the directories that were created for the restore, from the data directory up to `made`. */
async function removeEmpty(directory: string, made: string): Promise<void> {
  for (let path = directory; path.startsWith(made); path = dirname(path)) await rmdir(path).catch(() => {})
}

/*
 * Reads a backup (format.ts). Opening it checks the seal, the list of files and the database. The files themselves are
 * compared with their SHA-256 when they are read.
 */

/** An open backup. */
export interface Backup {
  readonly summary: BackupSummary
  readonly files: readonly BackupFile[]
  readonly database: DatabaseContents
  /** Reads every file and compares its SHA-256. `write` receives the contents. Refuses `backup_damaged`. */
  readAll(reading: Reading & { write?: FileWriter }): Promise<void>
  close(): void
}

/** Receives the files of a backup one after another. */
export type FileWriter = ReturnType<typeof writerInto>

/** Maximum number of entries: up to three per deployment. */
const maxEntries = 2_000_000
/** Maximum size of the list of files, which is parsed as a whole: so many bytes for each entry of the zip. */
const maxListedBytes = 8 * 1024
/** Maximum size of the database, which is held in memory: as large as SQLite can be there. */
const maxDatabaseBytes = 2 * 1024 ** 3
/** The rest of that limit, in bytes. */
const maxOtherBytes = 1024 * 1024

/**
 * Opens a backup. `isSealed` means that the caller has just checked the seal. Refuses (`invalid`) `not_a_backup`,
 * `backup_truncated`, `backup_damaged`; (`unsupported`) `backup_newer`.
 */
export async function openBackup(
  path: string,
  { isSealed = false, ...reading }: Reading & { isSealed?: boolean } = {}
): Promise<Backup> {
  if (!isSealed) await checkSeal(path, reading)
  const archive = await openArchive(path, { maxEntries, maxExtractedBytes: Number.MAX_SAFE_INTEGER }).catch(error => {
    throw error instanceof Refusal ? damaged(path, error.message, error) : error
  })
  try {
    return await readBackup(path, archive)
  } catch (error) {
    archive.close()
    throw error
  }
}

async function readBackup(path: string, archive: Archive): Promise<Backup> {
  try {
    // Some file systems would make one file of two names.
    checkNames(archive.entries, { windows: false, folds: () => ({ letterCase: true, normalForm: true }) })
  } catch (error) {
    throw error instanceof Refusal ? damaged(path, error.message, error) : error
  }
  const entries = new Map(archive.entries.map(entry => [entry.path, entry] as const))
  const reader = createEntryReader(archive)
  const manifestEntry = entries.get(backupRoot + manifestName)
  if (manifestEntry === undefined) throw notBackup(path, `it does not contain ${backupRoot}${manifestName}`)
  if (manifestEntry.size > maxOtherBytes + entries.size * maxListedBytes) {
    throw damaged(path, 'its list of files is too long for the number of its files')
  }
  const manifest = checkManifest(parse(await contentsOf(manifestEntry), path), path)
  entries.delete(backupRoot + manifestName)
  checkList(manifest.files, entries, path)
  if (entryOf(databaseName).size > maxDatabaseBytes) throw damaged(path, 'its database is too large')
  const database = await checkDatabase(await contentsOf(entryOf(databaseName)), {
    path,
    archives: archivesOf(manifest)
  })

  async function contentsOf(entry: ArchiveEntry): Promise<Buffer> {
    const pieces: Buffer[] = []
    await readPieces(entry, piece => void pieces.push(Buffer.from(piece)))
    return Buffer.concat(pieces)
  }

  async function readPieces(entry: ArchiveEntry, take: (piece: Buffer) => void): Promise<void> {
    try {
      await reader.read(entry, take)
    } catch (error) {
      throw error instanceof Refusal && error.kind === 'invalid' ? damaged(path, error.message, error) : error
    }
  }

  function entryOf(name: string): ArchiveEntry {
    const entry = entries.get(backupRoot + name)
    if (entry === undefined) throw damaged(path, `${name} is missing`)
    return entry
  }

  return {
    summary: summaryOf(manifest),
    files: manifest.files,
    database,
    async readAll({ onProgress = () => {}, signal, write }) {
      let done = 0
      for (const file of manifest.files) {
        signal?.throwIfAborted()
        const hash = createHash('sha256')
        const put = write?.begin(file)
        try {
          await readPieces(entryOf(file.path), piece => {
            signal?.throwIfAborted()
            hash.update(piece)
            put?.(piece)
            onProgress((done += piece.length))
          })
        } finally {
          if (put !== undefined) write?.end()
        }
        if (hash.digest('hex') !== file.sha256) throw damaged(path, `the SHA-256 of ${file.path} is wrong`)
      }
    },
    close: () => archive.close()
  }
}

/** Returns a writer that creates each file at the path that `placeOf` returns. All directories must exist. */
export function writerInto(placeOf: (file: BackupFile) => string) {
  let open: OpenFile | undefined
  return {
    /** Begins a file; returns the function that receives its pieces. */
    begin(file: BackupFile): (piece: Uint8Array) => void {
      const opened = new OpenFile(placeOf(file), 'wx', 0o600)
      open = opened
      return piece => opened.writeSync(piece)
    },
    end: (): void => open?.close()
  }
}

/** Returns the ids of the deployments whose archive is in the backup. */
function archivesOf({ files }: BackupManifest): Set<string> {
  return new Set(files.flatMap(({ path }) => /^deployments\/(\w+)\.(?:zip|index)$/.exec(path)?.[1] ?? []))
}

function parse(bytes: Buffer, path: string): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (cause) {
    throw damaged(path, `its ${manifestName} is not JSON`, cause)
  }
}

function checkManifest(value: unknown, path: string): BackupManifest {
  const manifest = (value ?? {}) as Partial<BackupManifest>
  if (!Number.isSafeInteger(manifest.format)) throw notBackup(path, `its ${manifestName} has no format`)
  if ((manifest.format as number) > backupFormat)
    throw newer(path, `its format is ${manifest.format}, but this svc supports at most ${backupFormat}`)
  const texts = [manifest.createdAt, manifest.version, manifest.host, manifest.directory]
  const isWhole = texts.every(text => typeof text === 'string') && Number.isSafeInteger(manifest.schemaVersion)
  const { notes = [] } = manifest
  const areNotes = Array.isArray(notes) && notes.every(note => typeof note === 'string')
  if (!isWhole || !areNotes || !Array.isArray(manifest.files) || !manifest.files.every(isFile))
    throw damaged(path, `its ${manifestName} is incomplete`)
  return { ...(manifest as BackupManifest), notes }
}

function isFile(value: unknown): value is BackupFile {
  const { path, bytes, sha256, mtimeMs } = (value ?? {}) as Partial<BackupFile>
  return (
    typeof path === 'string' &&
    Number.isSafeInteger(bytes) &&
    typeof sha256 === 'string' &&
    /^[0-9a-f]{64}$/.test(sha256) &&
    Number.isFinite(mtimeMs)
  )
}

/** The list of files and the zip must agree. */
function checkList(files: readonly BackupFile[], entries: ReadonlyMap<string, ArchiveEntry>, path: string): void {
  const listed = new Set<string>()
  for (const { path: name, bytes } of files) {
    if (!isInBackup(name)) throw damaged(path, `"${oneLine(name)}" does not belong in a backup`)
    if (listed.has(name)) throw damaged(path, `${name} is in its list of files twice`)
    listed.add(name)
    const entry = entries.get(backupRoot + name)
    if (entry === undefined) throw damaged(path, `${name} is missing`)
    if (entry.kind !== 'file' || entry.size !== bytes) throw damaged(path, `${name} does not match the list of files`)
  }
  if (files.length !== entries.size) throw damaged(path, 'it contains files that are not in the list of files')
}

/** The contents of a backup's database that a restore reports. */
export interface DatabaseContents {
  /** `nodes`: number of nodes that it is deployed on, instead of the server. */
  projects: Array<{ id: string; name: string; deployPath: string; nodes: number }>
  deployments: number
  /** Ids of the deployments whose archive is recorded but missing from the backup. */
  missingArchives: string[]
  /** Names of the keys that it trusts to sign releases. */
  signingKeys: string[]
}

interface Given {
  /** The path of the backup. */
  path: string
  /** Ids of the deployments whose archive is in the backup. */
  archives: ReadonlySet<string>
}

/** Checks every page and the schema of a backup's database. Refuses `backup_damaged`, `backup_newer`. */
export async function checkDatabase(file: Uint8Array, { path, archives }: Given): Promise<DatabaseContents> {
  const memory = openInMemory(await loadSqlite(), file, path)
  try {
    const fault = String(memory.pragma('integrity_check(1)'))
    if (fault !== 'ok') throw damaged(path, `its database has a fault: ${fault.replaceAll('\n', '; ')}`)
    if (memory.pragma('application_id') !== applicationId)
      throw damaged(path, 'its database belongs to another program')
    const version = versionOf(memory)
    if (version > schemaVersion) {
      throw newer(path, `its database has schema version ${version}, but this svc supports at most ${schemaVersion}`)
    }
    // This migrates a copy in memory. The next start migrates the restored database.
    migrate(memory)
    const states = deploymentStates(memory)
    return {
      projects: withNodes(memory, readProjects(memory, ['id', 'name', 'deployPath'])),
      deployments: states.length,
      missingArchives: states.filter(({ id, hasArtifact }) => hasArtifact && !archives.has(id)).map(({ id }) => id),
      signingKeys: listSigningKeys(memory).flatMap(({ name, revokedAt }) => (revokedAt === null ? [name] : []))
    }
  } catch (error) {
    throw error instanceof Refusal
      ? error
      : damaged(path, `its database cannot be read: ${(error as Error).message}`, error)
  } finally {
    memory.close()
  }
}

function openInMemory(sqlite: Awaited<ReturnType<typeof loadSqlite>>, file: Uint8Array, path: string): Memory {
  try {
    return createMemory(sqlite, file)
  } catch (error) {
    throw damaged(path, `its database cannot be read: ${(error as Error).message}`, error)
  }
}
