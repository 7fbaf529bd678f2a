import { createHash, type Hash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { hostname } from 'node:os'
import { Writable } from 'node:stream'
import type { ZipSource } from '../archive/source.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { schemaVersion } from '../store/schema.js'
import { backupFormat, backupRoot, manifestName, type BackupFile, type BackupManifest } from './format.js'
import { takeSnapshot, type Snapshot, type SnapshotFile, type SnapshotNeeds } from './snapshot.js'

/** Dependencies of `createBackups`. */
export interface BackupNeeds extends SnapshotNeeds {
  /** The version of this program. */
  version: string
  audit: { record(event: AuditEvent): Promise<void> }
}

/** The actor, the progress and the cancellation of a backup. */
export interface BackupWriting {
  actor: Actor
  /** Called once with the number of bytes that will be read. */
  onBegin?: (expectedBytes: number) => void
  /** Called with the number of bytes that have been read so far. */
  onProgress?: (bytes: number) => void
  signal?: AbortSignal | undefined
}

/** Writes a backup of the data directory as it is now (format.ts), without its seal. */
export interface Backups {
  /**
   * Writes the zip to `out`, which stays open: an empty file or any stream. Refuses like `takeSnapshot` and
   * archive/write.ts.
   */
  write(out: Writable | FileHandle, writing: BackupWriting): Promise<BackupManifest>
}

const fileMode = 0o600
/** The SHA-256 of a file without contents. */
const emptySha256 = createHash('sha256').digest('hex')

/**
 * Creates the backups of a server. The module that writes zips is loaded on first use: a start must not wait for it.
 */
export function createBackups(needs: BackupNeeds): Backups {
  return {
    async write(out, { actor, onBegin = () => {}, onProgress = () => {}, signal }) {
      const [{ writeZip }, { writeZipFile }] = await Promise.all([
        import('../archive/write.js'),
        import('../archive/write-file.js')
      ])
      await needs.audit.record({ action: 'backup.create', actor, detail: null })
      const snapshot = await takeSnapshot(needs)
      try {
        onBegin(snapshot.files.reduce((total, { bytes }) => total + bytes, 0))
        const manifest = manifestOf(needs, snapshot)
        const sources = snapshot.files.map(file => sourceOf(file, manifest.files))
        const last = {
          path: backupRoot + manifestName,
          mode: fileMode,
          mtimeMs: snapshot.atMs,
          contents: () => Buffer.from(`${JSON.stringify(manifest, null, 1)}\n`)
        }
        const zipping = { last, onProgress: ({ bytes }: { bytes: number }) => onProgress(bytes), signal }
        await (out instanceof Writable ? writeZip(sources, out, zipping) : writeZipFile(sources, out, zipping))
        return manifest
      } finally {
        // The next start removes what could not be removed here.
        await snapshot.discard().catch(() => {})
      }
    }
  }
}

/** Creates the manifest. Its list of files is filled while they are read. */
function manifestOf({ home, version }: BackupNeeds, { atMs, notes }: Snapshot): BackupManifest {
  return {
    format: backupFormat,
    createdAt: new Date(atMs).toISOString(),
    version,
    schemaVersion,
    host: hostname(),
    directory: home.directory,
    files: [],
    notes
  }
}

/**
 * Hashes the file while it is packed. The hash object is dropped afterwards, because there may be many thousands of
 * files.
 */
function sourceOf({ path, source, bytes, mtimeMs, isGrowing }: SnapshotFile, files: BackupFile[]): ZipSource {
  const file: BackupFile = { path, bytes, sha256: emptySha256, mtimeMs }
  files.push(file)
  let hash: Hash | null = null
  let leftBytes = bytes
  const onRead = (piece: Uint8Array): void => {
    hash ??= createHash('sha256')
    hash.update(piece)
    leftBytes -= piece.length
    if (leftBytes > 0) return
    file.sha256 = hash.digest('hex')
    hash = null
  }
  return { path: backupRoot + path, kind: 'file', source, bytes, mode: fileMode, mtimeMs, isGrowing, onRead }
}
