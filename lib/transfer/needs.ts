import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import type { Reader, Store, Transaction } from '../store/database.js'
import type { LogSourceRecord } from './package.js'

/** The table of log sources, which is another room's. */
export interface LogSourceTable {
  list(db: Reader, projectId: string): LogSourceRecord[]
  find(db: Reader, id: string): LogSourceRecord | undefined
  insert(tx: Transaction, source: LogSourceRecord): void
  /** Writes every field over the one with this id. */
  replace(tx: Transaction, source: LogSourceRecord): void
}

/** What export and import need of other rooms. */
export interface TransferNeeds {
  store: Store
  home: { directory: string; deployments: string; tmp: string }
  /** As `TargetRules` has it. */
  allowSystemPaths?: boolean | undefined
  clock: Clock
  ids: Ids
  /** Of this program. */
  version: string
  audit: { within(tx: Transaction, event: AuditEvent): void; record(event: AuditEvent): Promise<void> }
  settings: {
    /** Every setting that is known here, with its value. */
    all(): Record<string, string>
    /** Whether a setting's value is a secret. */
    isSecret(key: string): boolean
    /** The values as they would be kept; refuses one that cannot be meant, naming its key. */
    check(patch: Record<string, unknown>): Map<string, string>
    /** After an import: what is in the store counts. */
    reload(): void
  }
  deployments: {
    hasRunning(projectId: string): boolean
    /** Notes deployments whose files are made before their records: a kill in between must not leave the files. */
    note(deployIds: readonly string[]): Promise<{ settle(): Promise<void> }>
    readOutput(deployId: string, options: { maxBytes: number }): Promise<{ text: string; truncated: boolean }>
    /** Extracts over the project's target, in the project's turn; what is there and not in the archive stays. */
    restore(request: { projectId: string; archivePath: string; deployId: string | null; signal: AbortSignal | undefined }): Promise<unknown>
  }
  /** Absent where this program has none. */
  logSources?: LogSourceTable
}

/** Whoever asks. */
export interface Asked {
  actor: Actor
  signal?: AbortSignal | undefined
}
