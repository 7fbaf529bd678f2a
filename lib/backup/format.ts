/*
 * The format of a backup: a zip with all entries below `svc-backup/`, which contains a data directory as of one moment.
 *
 *   svc.db            the database, with every write that was acknowledged by then; there is no redo log
 *   config.json       with the admin token and everything else in it
 *   deployments/      archives, outputs, manifests
 *   …                 the other files of the directory (contents.ts lists the exceptions)
 *   manifest.json     the last entry: every other one with its size and its SHA-256
 *
 * The zip's comment is a seal (seal.ts): the SHA-256 of every byte before it. Some parts of a zip (local headers,
 * times, modes) are not checked by any reader of zips; the seal detects changes of these too.
 */

/** The version of the format. It grows when older versions of svc could not restore a new backup. */
export const backupFormat = 1
/** The prefix of every path in the zip. */
export const backupRoot = 'svc-backup/'
/** The name of the manifest. */
export const manifestName = 'manifest.json'
/** The name of the database. */
export const databaseName = 'svc.db'

/** A file in a backup. */
export interface BackupFile {
  /** Relative to the data directory, `/` between segments. */
  path: string
  bytes: number
  /** The hash as hex digits. */
  sha256: string
  mtimeMs: number
}

/** The contents of manifest.json. */
export interface BackupManifest {
  format: number
  /** The moment of the backup, as ISO text. */
  createdAt: string
  /** The version of the program that wrote it. */
  version: string
  /** The schema version of the database. */
  schemaVersion: number
  /** The host name of the machine. */
  host: string
  /** The path of the data directory on that machine. */
  directory: string
  files: BackupFile[]
  /** Sentences on files that were left out. */
  notes: string[]
}

/** A manifest with the number of files and their total size instead of the list. */
export interface BackupSummary extends Omit<BackupManifest, 'format' | 'files'> {
  files: number
  bytes: number
}

/** Summarises a manifest. */
export function summaryOf({
  files,
  createdAt,
  version,
  schemaVersion,
  host,
  directory,
  notes
}: BackupManifest): BackupSummary {
  const bytes = files.reduce((total, file) => total + file.bytes, 0)
  return { createdAt, version, schemaVersion, host, directory, files: files.length, bytes, notes }
}
