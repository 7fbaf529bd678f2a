import type { Bytes } from './scalars.js'
import type { AccessToken } from './access.js'
import type { Project } from './project.js'
import type { RolloutAhead, RolloutPolicy } from './rollout.js'

/** What an upload may ask for besides its files: `confirm` is the field `confirmSeconds`. */
export const uploadFeatures = ['confirm'] as const
/** One of them. */
export type UploadFeature = (typeof uploadFeatures)[number]

/** The limits of an upload, as `GET /api/deploy/check` returns them. */
export interface UploadPermit {
  success: true
  project: Pick<Project, 'id' | 'name' | 'env'>
  /** Number of queued and running deployments of the project. */
  deploymentsAhead?: number
  /** The rollout that the deployment would wait for. */
  rolloutAhead?: RolloutAhead
  /** Maximum size of the archive in bytes. */
  maxUploadBytes: Bytes
  /** Maximum uncompressed size of the archive in bytes. */
  maxExtractedBytes: Bytes
  /** What an upload may ask for besides its files. */
  features: UploadFeature[]
  /** The named token of the request. Absent for a deploy token. */
  token?: Pick<AccessToken, 'name' | 'expiresAt'>
  /** The rollout that the upload would begin. Null: the server deploys the project itself. */
  rollout?: PlannedRollout | null
  /** The addresses of the hubs of the cluster. Absent on a server alone. */
  hubs?: string[]
}

/** A rollout that has not begun. */
export interface PlannedRollout {
  /** Number of nodes, without drained ones. */
  nodes: number
  waves: number
  /** The policy of the project, without what the upload sets. */
  policy: RolloutPolicy
}
