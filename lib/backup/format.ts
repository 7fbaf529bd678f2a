/*
 * A backup: a zip, all of it below `svc-backup/`, that holds a data directory as it was at one moment.
 *
 *   svc.db            the database, with every write that was acknowledged by then; there is no redo log beside it
 *   config.json       with the admin token and whatever else it holds
 *   deployments/      archives, outputs, manifests
 *   …                 whatever else lies there, as it is (contents.ts says what does not)
 *   manifest.json     the last entry: every other one with its size and its SHA-256
 *
 * The zip's own comment is a seal (seal.ts): the SHA-256 of every byte before it. A zip can be changed in places that no
 * reader of zips looks at (local headers, times, modes); the seal finds that too.
 */

/** Grows when a svc that knows only what is described here could not restore what is written. */
export const backupFormat = 1
/** What every path begins with. */
export const backupRoot = 'svc-backup/'
export const manifestName = 'manifest.json'
export const databaseName = 'svc.db'

export interface BackupFile {
  /** Relative to the data directory, `/` between segments. */
  path: string
  bytes: number
  /** Hex. */
  sha256: string
  mtimeMs: number
}

export interface BackupManifest {
  format: number
  /** The moment, ISO. */
  createdAt: string
  /** Of the program that wrote it. */
  version: string
  /** Of the database. */
  schemaVersion: number
  /** The machine's name, and where the data directory was on it. */
  host: string
  directory: string
  files: BackupFile[]
  /** Sentences on what could not be included. */
  notes: string[]
}

/** What of a manifest is worth telling without its list. */
export interface BackupSummary {
  createdAt: string
  version: string
  schemaVersion: number
  host: string
  directory: string
  files: number
  bytes: number
  notes: string[]
}

export function summaryOf({ files, createdAt, version, schemaVersion, host, directory, notes }: BackupManifest): BackupSummary {
  const bytes = files.reduce((total, file) => total + file.bytes, 0)
  return { createdAt, version, schemaVersion, host, directory, files: files.length, bytes, notes }
}
