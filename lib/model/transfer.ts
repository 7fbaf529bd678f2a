import type { Project } from './project.js'

/** What an import does with a record that is here already (§4.13, import rule 1): the first two leave it as it is. */
export const strategies = ['skip-existing', 'merge', 'overwrite'] as const
export type Strategy = (typeof strategies)[number]

/** Ids; of settings their keys, of artifacts the projects'. */
export interface PartResult {
  created: string[]
  replaced: string[]
  skipped: string[]
}

/** What an import did, or by a dry run would do. */
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
  /** `created` and `replaced`: restored to the target of a project that was. */
  artifacts: PartResult & { failed: Array<{ id: string; error: string }> }
  brings: ImportBrings
  notes: string[]
}

/** What of created and replaced records can do harm, to be looked at before it comes: paths, scripts and settings. */
export interface ImportBrings {
  /** `value` is null where it is a secret. */
  settings: Array<{ key: string; value: string | null }>
  projects: BroughtProject[]
  logSources: Array<{ id: string; projectId: string; filePath: string }>
  /** `address` is that without what may be secret. */
  notificationTargets: Array<{ id: string; name: string; address: string }>
}

export type BroughtProject = Pick<
  Project,
  'id' | 'name' | 'deployPath' | 'preDeployScript' | 'postDeployScript' | 'postDeployAsync' | 'allowClientScripts' | 'allowedEnv' |
  'runAs' | 'scriptShell' | 'scriptDirectory'
> & {
  /** Of its scripts; the value of a secret is null, and has to be set. */
  variables: Array<{ name: string; value: string | null }>
  /** Whether files come for its deployPath. */
  hasArtifact: boolean
}

/** Errors break something now, warnings are what is merely not there yet. */
export type Level = 'ok' | 'warning' | 'error'

export type Check = 'database' | 'deployments' | 'deployPath' | 'token' | 'serverUrl' | 'server'

/** One thing that `svc verify` looked at. */
export interface Finding {
  check: Check
  level: Level
  /** The id of the project or deployment it is about. */
  id: string | null
  message: string
  /** What to do about it. */
  next: string | null
}
