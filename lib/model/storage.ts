/** What the data directory and the targets take (decisions §7), in bytes. */
export interface StorageUsage {
  /** `bytes`: the sum of the totals; the others are those of its file system, null where unknown. */
  home: { path: string; bytes: number; freeBytes: number | null; totalBytes: number | null; percentUsed: number | null }
  totals: StorageTotals
  projects: ProjectUsage[]
}

/** `logs`: output and lists of files; an archive with several names (a rollback's) counts once. */
interface StorageTotals {
  archives: number
  logs: number
  tmp: number
  database: number
}

export interface ProjectUsage {
  projectId: string
  archiveCount: number
  archiveBytes: number
  logBytes: number
  /** null: missing, or too large to be counted while somebody waits. */
  deployPathBytes: number | null
}

/** A file without a record. */
export interface FoundBytes {
  name: string
  bytes: number
}

export interface Cleaned {
  dryRun: boolean
  archives: Array<{ deployId: string; projectId: string; bytes: number }>
  temporaryFiles: FoundBytes[]
  /** Files of deployments without a record that went, or would go: none unless the request says so. */
  unrecordedFiles: FoundBytes[]
  /** Those that stay: they may be all that a lost database has left. */
  unrecordedLeft: FoundBytes[]
  /** Less than the sum, where a file has another name that stays. */
  freedBytes: number
}
