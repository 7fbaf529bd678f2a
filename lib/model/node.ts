import type { Bytes, Instant } from './scalars.js'

/** A machine that receives releases. */
export interface FleetNode {
  id: string
  /** Unique, whatever the case of its letters. */
  name: string
  labels: Record<string, string>
  /** The Ed25519 key of the node: 32 bytes in base64. */
  publicKey: string
  /** Whether rollouts leave it out. */
  isDrained: boolean
  enrolledAt: Instant
  /** When the hub heard of it last. Null: not since it was enrolled. */
  lastSeenAt: Instant | null
  /** The version of svc that it runs. */
  version: string | null
  /** Free bytes where it keeps its data. */
  freeBytes: Bytes | null
  /** Since when two machines have used its identity: it gets no orders. Null: one machine does. */
  sharedSince: Instant | null
}

/** A node as lists show it. @schema Node */
export interface ListedNode extends FleetNode {
  isConnected: boolean
  /** Present if its agent is older: it checks the signature of an order, not whether it was recorded. Upgrade it. */
  isOutdated?: true
  /** The projects on it that the caller may see. */
  placements: ListedPlacement[]
}

/** A placement as lists show it. @schema Placement */
export interface ListedPlacement extends Placement {
  projectName: string
  nodeName: string
}

/** A project on a node. */
export interface Placement {
  projectId: string
  nodeId: string
  /** The directory on the node. */
  deployPath: string
  /** The deployment of the hub whose files are in place. Null: none, or one that was made on the node itself. */
  liveDeployId: string | null
  /** The checksum of the tree that svc put there last. Null: none, or unknown. */
  liveTree: string | null
  /** When the node said so. */
  seenAt: Instant | null
  /** Whether files were edited there, or deployed on the node itself. */
  isDrifted: boolean
}

/** A one-time token with which a machine becomes a node. @schema Enrollment */
export interface Enrollment {
  id: string
  /** The name of the node. Null: the machine proposes one. */
  name: string | null
  labels: Record<string, string>
  createdAt: Instant
  /** The caller that created it, as in the audit log. */
  createdBy: string
  expiresAt: Instant
}

/** Limits of a fleet. */
export const fleetLimits = {
  nodes: 10_000,
  waves: 1000,
  labels: 32,
  labelLength: 100,
  nameLength: 100,
  enrollments: 1000,
  reportBytes: 16 * 1024,
  orderLineBytes: 64 * 1024,
  /** The end of the output of a node that the hub keeps. */
  outputBytes: 4096
} as const

/** How long the token of an enrollment is valid. */
export const enrollmentLimits = { minSeconds: 60, defaultSeconds: 60 * 60, maxSeconds: 7 * 24 * 60 * 60 } as const
