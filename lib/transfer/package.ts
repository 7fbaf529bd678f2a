/*
 * The package of export and import (§2.14): a zip with all entries below `svc-export/`.
 *
 *   settings.json               key → value, of the settings that were ever set
 *   projects.json               list of projects as `GET /api/projects` returns them, including tokens
 *   deployments.json            list of finished deployments, newest first, each with the end of its output   (logs)
 *   artifacts/<projectId>.zip   the files for the project's target                                       (artifacts)
 *   manifest.json               schemaVersion, timestamp, included, projectIds, artifacts; last, when all is known
 *
 * In addition to §2.14, with contents that a reader may ignore:
 *
 *   categories.json, tags.json  the labels that the projects' categoryId and tagIds refer to
 *   log-sources.json            the log sources of the projects
 *   variables.json              of scripts: {projectId, name, value, secret, updatedAt}; the value of a secret is null
 *   notification-targets.json   all of them, including secrets; not in a package of selected projects
 *   outputs/<deployId>.log      the whole output with its times, as it is stored                             (logs)
 *   manifests/<deployId>.manifest  the files that the deployment put in place                                (logs)
 *   manifests/<deployId>.scripted  what its scripts changed among these, without contents (install/scripted-file.ts)
 *
 * An artifact is the archive of the project's live deployment, or, if none is known, of its newest success that still
 * has one. If there is no such archive, the target itself is packed, without the files that match the ignore rules; the
 * index then has no deployId. A project on nodes of a fleet has only archives. Nodes, placements and rollouts stay with
 * their hub: a package moves projects to a server that has other nodes. Packages of other programs are accepted too: only `manifest.json` with its schemaVersion
 * is required, and of a record only the fields without a default.
 */
import type { DeploymentRow } from '../model/deployment.js'

/** The version of the format (§9). A newer package is refused. */
export const schemaVersion = 1
/** The prefix of every path in the zip. */
export const packageRoot = 'svc-export/'

/** The names of the JSON files. */
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

/** The path of a project's artifact. */
export const artifactPath = (projectId: string): string => `artifacts/${projectId}.zip`
/** The path of a deployment's output. */
export const outputPath = (deployId: string): string => `outputs/${deployId}.log`
/** The path of a deployment's manifest. */
export const deployedPath = (deployId: string): string => `manifests/${deployId}.manifest`

/** The path of what the scripts of a deployment changed. */
export const scriptedPath = (deployId: string): string => `manifests/${deployId}.scripted`

/** A part of a package. */
export type IncludedPart = 'settings' | 'projects' | 'deployments' | 'artifacts'

/** An artifact in the index. */
export interface ArtifactEntry {
  projectId: string
  /** The path below `svc-export/`. */
  path: string
  /** The deployment whose archive it is; null if it was packed from the target. */
  deployId: string | null
  bytes: number
  sha256: string | null
}

/** The contents of manifest.json. */
export interface Manifest {
  schemaVersion: number
  timestamp: string
  /** The version of the program that wrote the package. */
  version: string
  included: IncludedPart[]
  projectIds: string[]
  deploymentCount: number
  artifacts: ArtifactEntry[]
  /** Sentences on what could not be included. */
  notes: string[]
}

/** A deployment in `deployments.json`. `hasArtifact` says whether its archive is in the package. */
export interface PackedDeployment extends DeploymentRow {
  /** The end of the output, without times. */
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

/** A project's log source (§2.5). Its table belongs to another module. */
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
