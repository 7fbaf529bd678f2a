/*
 * The package of export and import (§2.14): a zip, all of it below `svc-export/`.
 *
 *   settings.json               key → value, of the settings that were ever set
 *   projects.json               list of projects as `GET /api/projects` answers them, tokens included
 *   deployments.json            list of finished deployments, newest first, each with the end of its output   (logs)
 *   artifacts/<projectId>.zip   what is to lie in the project's target                                    (artifacts)
 *   manifest.json               schemaVersion, timestamp, included, projectIds, artifacts; last: it says what came to be
 *
 * and, beside what §2.14 names, what a reader may pass over:
 *
 *   categories.json, tags.json  the ones that the projects carry: a project's categoryId and tagIds are ids of these
 *   log-sources.json            of the projects
 *   variables.json              of the projects' scripts: {projectId, name, value, secret, updatedAt}; secrets without their value
 *   notification-targets.json   all of them, secrets included; not in a package of chosen projects
 *   outputs/<deployId>.log      the whole output with its times, as it is stored                             (logs)
 *   manifests/<deployId>.manifest  what the deployment put in place                                          (logs)
 *
 * An artifact is the archive of the project's newest success that still has one. Where none has, the target itself is
 * packed, without what the ignore rules name; the index then has no deployId. Read is also what others have written:
 * only `manifest.json` with its schemaVersion must be there, and of a record only what has no default.
 */
import type { DeploymentRow } from '../model/deployment.js'

export const schemaVersion = 1 // §9
/** What every path begins with. */
export const packageRoot = 'svc-export/'

export const packageFiles = {
  manifest: 'manifest.json',
  settings: 'settings.json',
  categories: 'categories.json',
  tags: 'tags.json',
  projects: 'projects.json',
  logSources: 'log-sources.json',
  variables: 'variables.json',
  notificationTargets: 'notification-targets.json',
  deployments: 'deployments.json'
} as const

export const artifactPath = (projectId: string): string => `artifacts/${projectId}.zip`
export const outputPath = (deployId: string): string => `outputs/${deployId}.log`
export const deployedPath = (deployId: string): string => `manifests/${deployId}.manifest`

export type IncludedPart = 'settings' | 'projects' | 'deployments' | 'artifacts'

export interface ArtifactEntry {
  projectId: string
  /** Below `svc-export/`. */
  path: string
  /** The deployment whose archive it is; null: it was packed from the target. */
  deployId: string | null
  bytes: number
  sha256: string | null
}

export interface Manifest {
  schemaVersion: number
  timestamp: string
  /** Of the program that wrote it. */
  version: string
  included: IncludedPart[]
  projectIds: string[]
  deploymentCount: number
  artifacts: ArtifactEntry[]
  /** Sentences on what could not be included. */
  notes: string[]
}

/** A deployment as it stands in `deployments.json`: `hasArtifact` says whether its archive is in the package. */
export interface PackedDeployment extends DeploymentRow {
  /** Its end, without times. */
  output: string
  outputTruncated?: boolean
}

/** A variable of a project's scripts; the value of a secret is null. */
export interface PackedVariable {
  projectId: string
  name: string
  value: string | null
  secret: boolean
  updatedAt: string
}

/** What a project's log source is (§2.5); its table is another room's. */
export interface LogSourceRecord {
  id: string
  projectId: string
  label: string
  filePath: string
  kind: string
  sortOrder: number
  createdAt: string
  updatedAt: string
}
