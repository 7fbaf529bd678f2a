/*
 * Reads a backup (format.ts). Opening it checks the seal, the list of files and the database. The files themselves are
 * compared with their SHA-256 when they are read.
 */
import { Refusal } from '../../base/errors.js'
import {
  type BackupFile,
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
export interface FileWriter {
  /** Begins a file; returns the function that receives its pieces. */
  begin(file: BackupFile): (piece: Uint8Array) => void
  end(): void
}

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
  const database = await checkDatabase(await contentsOf(entryOf(databaseName)), path, archivesOf(manifest))

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

/** Checks every page and the schema of the database of the backup at `path`. Refuses `backup_damaged`, `backup_newer`. */
async function checkDatabase(file: Uint8Array, path: string, archives: ReadonlySet<string>): Promise<DatabaseContents> {
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
