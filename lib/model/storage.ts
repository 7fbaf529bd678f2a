import type { Bytes } from './scalars.js'

/** The disk space that the data directory and the targets use (decisions §7), in bytes. */
export interface StorageUsage {
  /**
   * The data directory. `bytes` is the sum of the totals; the other figures are those of its file system, null if
   * unknown.
   */
  home: {
    path: string
    bytes: Bytes
    freeBytes: Bytes | null
    totalBytes: Bytes | null
    /** @number */
    percentUsed: number | null
  }
  totals: StorageTotals
  projects: ProjectUsage[]
}

/** `logs` includes outputs and manifests. An archive with several names (a rollback's) is counted once. */
interface StorageTotals {
  archives: Bytes
  logs: Bytes
  tmp: Bytes
  database: Bytes
}

/** The disk space of one project. */
export interface ProjectUsage {
  projectId: string
  archiveCount: number
  archiveBytes: Bytes
  logBytes: Bytes
  /** Size of the target; null if it is missing, or too large to be measured during a request. */
  deployPathBytes: Bytes | null
}

/** A file without a record. */
export interface FoundBytes {
  name: string
  bytes: Bytes
}

/** The result of cleaning up the data directory. */
export interface Cleaned {
  dryRun: boolean
  archives: Array<{ deployId: string; projectId: string; bytes: Bytes }>
  temporaryFiles: FoundBytes[]
  /**
   * Deployment files without a record that were removed, or would be. Empty unless the request asks for their removal.
   */
  unrecordedFiles: FoundBytes[]
  /** Deployment files without a record that stay: they may be all that is left of a lost database. */
  unrecordedLeft: FoundBytes[]
  /** The freed space. It is less than the sum if a removed file has another name that stays. */
  freedBytes: Bytes
}
