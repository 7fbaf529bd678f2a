import type { Project, shownFields } from './project.js'

/** How an import treats existing records (§4.13, import rule 1): the first two strategies leave them unchanged. */
export const strategies = ['skip-existing', 'merge', 'overwrite'] as const
/** The strategy of an import. */
export type Strategy = (typeof strategies)[number]

/** The records of one kind by result: ids, keys for settings, and project ids for artifacts. @schema PartResult */
export interface PartResult {
  created: string[]
  replaced: string[]
  skipped: string[]
}

/** The result of an import, or of a dry run. */
export interface ImportResult {
  strategy: Strategy
  dryRun: boolean
  settings: PartResult
  categories: PartResult
  tags: PartResult
  projects: PartResult
  logSources: PartResult
  notificationTargets: PartResult
  deployments: PartResult
  /** `created` and `replaced` are the projects whose artifact was restored to the target. */
  artifacts: PartResult & { failed: Array<{ id: string; deployId?: string | null; error: string }> }
  brings: ImportBrings
  notes: string[]
}

/**
 * The parts of created and replaced records that could do harm, for a review before the import: paths, scripts and
 * settings.
 */
export interface ImportBrings {
  /** `value` is null for a secret. */
  settings: Array<{ key: string; value: string | null }>
  projects: BroughtProject[]
  /** Scripts in the records of deployments, which a rollback would run, each text once. */
  deploymentScripts: Array<{ projectId: string; step: string; script: string; deployments: number }>
  logSources: Array<{
    id: string
    projectId: string
    /** Absolute path of the log file. */
    filePath: string
  }>
  /** `address` omits the parts that may be secret. */
  notificationTargets: Array<{ id: string; name: string; address: string }>
}

/** The parts of an imported project that could do harm. */
export type BroughtProject = Pick<Project, (typeof shownFields)[number]> & {
  /** Every other value of the record that is not the default, by its place in the record. */
  others: Array<{ key: string; value: string }>
  /** The variables of its scripts. The value of a secret is null and has to be set after the import. */
  variables: Array<{ name: string; value: string | null }>
  /** Whether the package contains files for its deployPath. */
  hasArtifact: boolean
}

/** The severity of a finding: an error breaks something now; a warning is something that does not exist yet. */
export type Level = 'ok' | 'warning' | 'error'

/** The checks of `svc verify`. */
export type Check = 'database' | 'deployments' | 'archives' | 'deployPath' | 'token' | 'serverUrl' | 'server'

/** One finding of `svc verify`. */
export interface Finding {
  check: Check
  level: Level
  /** The id of the project or deployment that the finding is about. */
  id: string | null
  message: string
  /** Advice for the user; null if there is nothing to do. */
  next: string | null
}
