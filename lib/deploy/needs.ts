import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import type { AuditEvent } from '../model/audit.js'
import type { DeploymentRow, EventKey, NotificationTrigger } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import type { OpenedVariable } from '../model/variable.js'
import type { Store } from '../store/database.js'
import type { DeployHome } from './files.js'

/** The settings that deployments depend on; read anew each time. */
export interface DeploySettings {
  number(key: 'keep_archives' | 'script_timeout' | 'max_extracted_size' | 'max_output_size'): number
  flag(key: 'allow_client_scripts' | 'durable_targets'): boolean
}

/** What the world is told of a deployment (§6.5). */
export interface Notice {
  trigger: NotificationTrigger
  event: EventKey
  deployment: DeploymentRow
  project: Project
  errorMessage: string | null
}

/** Keeps count of archives and outputs. */
export interface KeptBytes {
  /** So many bytes of a project have come, or, if negative, gone. */
  changed(projectId: string, bytes: number): void
  /** Files have gone that were not counted one by one. */
  recountLater(): void
}

/** What deployments need of other rooms. */
export interface DeployNeeds {
  store: Store
  home: DeployHome
  /** As `TargetRules` has it. */
  allowSystemPaths?: boolean | undefined
  clock: Clock
  ids: Ids
  settings: DeploySettings
  /** The server's environment: scripts inherit it, without its secrets. */
  environment: Readonly<Record<string, string | undefined>>
  /** Is told what is kept, so that nobody need count it on the disk for each upload. */
  quota: KeptBytes
  /** A project's variables. Refuses (503 `variables_key`) secrets that cannot be opened. */
  variables: { open(projectId: string): Promise<readonly OpenedVariable[]> }
  audit(event: AuditEvent): void
  /** Never blocks a deployment. */
  notify(notice: Notice): void
  /** Is told of each end that is recorded. */
  ended?(row: DeploymentRow): void
  /** How long to wait before each of the attempts to record an end, before it is kept in memory; tests shorten it. */
  endRetriesMs?: readonly number[]
  /** What an operator should see: our own faults. */
  log(message: string, error?: unknown): void
}
