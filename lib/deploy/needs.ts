import type { SecureContext } from 'node:tls'
import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import type { AuditEvent } from '../model/audit.js'
import type { Offers, Rolls } from '../model/fleet-wire.js'
import type { DeploymentRow, EventKey, NotificationTrigger } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import type { PolicyChanges } from '../model/policy.js'
import type { UnfinishedTarget } from '../model/health.js'
import type { OpenedVariable } from '../model/variable.js'
import type { Store, Transaction } from '../core/store/database.js'
import type { Pm2Binding } from '../model/machine.js'
import type { DeployHome } from './files.js'
import type { ServerKey } from '../core/audit/signed-note.js'

/** The settings that deployments depend on. They are read again each time. */
export interface DeploySettings {
  number(
    key: 'keep_archives' | 'keep_undo' | 'script_timeout' | 'max_extracted_size' | 'max_output_size' | 'max_before_size'
  ): number
  flag(key: 'allow_client_scripts' | 'durable_targets' | 'share_archives'): boolean
}

/** An event of a deployment that notifications report (§6.5). */
export interface Notice {
  trigger: NotificationTrigger
  event: EventKey
  deployment: DeploymentRow
  project: Project
  errorMessage: string | null
}

/** Counts the bytes of archives and outputs. */
export interface KeptBytes {
  /** Adds to the bytes of a project. Negative values subtract. */
  changed(projectId: string, bytes: number): void
  /** Schedules a recount, after files were removed without being counted. */
  recountLater(): void
}

/** Keeps archives on two hubs of a cluster. */
export interface ArchiveCopies {
  /** Resolves with the hubs that have an archive, two if there are as many. Refuses 503 `no_second_copy`. */
  keep(archive: { deployId: string; sha256: string; bytes: number }, signal: AbortSignal): Promise<string[]>
  /** Fetches the archive of a deployment if this hub lacks it and another one has it. */
  ensure(deployId: string, signal: AbortSignal): Promise<void>
}

/** What signs receipts. */
export interface ReceiptNeeds {
  key: Pick<ServerKey, 'signers'>
  /** The version of svc. */
  version: string
}

export interface DeployNeeds {
  store: Store
  home: DeployHome
  /** See `TargetRules`. */
  allowSystemPaths?: boolean | undefined
  /** Whether every release must be signed by a key in `keys/allowed_signers` (signatures.ts). Default: false. */
  requireSignatures?: boolean | undefined
  clock: Clock
  ids: Ids
  settings: DeploySettings
  /** The server's environment. Scripts inherit it without its secrets. */
  environment: Readonly<Record<string, string | undefined>>
  /** Tracks the disk usage, so that uploads need no count of the files on disk. */
  quota: KeptBytes
  /** A project's variables. Refuses (503 `variables_key`) if a secret cannot be decrypted. */
  variables: { open(projectId: string): Promise<readonly OpenedVariable[]> }
  /** Opens the header values of a project's checks. Refuses 503 `variables_key`. */
  headers: { open(projectId: string, policy: PolicyChanges): Promise<PolicyChanges> }
  /** What the checks of deployments ask the rest of the server for. */
  checks: CheckSources
  /** The fleet; absent: no project is placed on nodes. */
  fleet?: Rolls | undefined
  /** Encrypts what clients have sent, while their deployments wait. */
  offers: Offers
  audit(event: AuditEvent): void
  /** Adds an entry to the transaction of its change. Refuses an actor who has lost its rights. Default: `auditsWithin` (record.ts). */
  auditWithin?(tx: Transaction, event: AuditEvent): void
  /** Sends notifications. Never blocks a deployment. */
  notify(notice: Notice): void
  /** Called when the files of a project were compared with what svc has put there, with the number that differ. */
  drifted?(projectId: string, files: number): void
  /** Archives on other hubs; undefined: the server is not a hub of a cluster. */
  copies?: ArchiveCopies | undefined
  /** Gives up an unfinished target on the machine of another hub; undefined: the server is not a hub of a cluster. */
  giveUpOn?: ((hub: string, deployId: string) => Promise<UnfinishedTarget>) | undefined
  /** Signs the receipts of deployments. Default: none are made. */
  receipts?: ReceiptNeeds
  /** Called after each recorded end. */
  ended?(row: DeploymentRow): void
  /** Waits in ms between attempts to record an end. After the last one, the end is kept in memory. Tests shorten it. */
  endRetriesMs?: readonly number[]
  /** Logs errors of the server for the operator. */
  log(message: string, error?: unknown): void
}

/** What checks ask the rest of the server for. */
export interface CheckSources {
  /** The setting `gate_hosts`. */
  hosts(): readonly string[]
  /** Returns the authorities that requests trust; undefined: those of Node. Throws if they cannot be read. */
  trust?(): SecureContext | undefined
  /** The PM2 application of a project. */
  pm2(appName: string | null): Promise<Pm2Binding>
  /** Returns the lines of a log source of the project after an offset, or its size if the offset is null. */
  log(options: { projectId: string; sourceId: string; offset: number | null; signal: AbortSignal }): Promise<NewLines>
  /**
   * Returns the index of the first line that matches an expression, or -1. It runs in a thread, which is ended if the
   * expression takes too long (`search_too_slow`).
   */
  firstMatch(
    expression: { source: string; flags: string },
    lines: readonly string[],
    signal: AbortSignal
  ): Promise<number>
}

/** Lines of a log file, and the offset after them. */
export interface NewLines {
  lines: string[]
  endOffset: number
  /** Whether there are more lines. */
  hasMore: boolean
}
