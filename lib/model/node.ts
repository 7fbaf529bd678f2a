/** A machine that receives releases. */
export interface FleetNode {
  id: string
  /** Unique, whatever the case of its letters. */
  name: string
  labels: Record<string, string>
  /** Its Ed25519 key: the 32 bytes in base64. */
  publicKey: string
  /** Whether rollouts leave it out. */
  isDrained: boolean
  enrolledAt: string
  /** When it was heard of last; null: not since it was enrolled. */
  lastSeenAt: string | null
  /** The version of svc that it runs; null: unknown. */
  version: string | null
  /** Free bytes where it keeps its data; null: unknown. */
  freeBytes: number | null
  /** Since when two machines have used its identity; null: one machine does. */
  sharedSince: string | null
}

/** A node as lists show it. */
export interface ListedNode extends FleetNode {
  isConnected: boolean
  /** Its agent is connected with the protocol of before, which does not notice recorded orders. */
  isOutdated?: true
  /** What the node has of each project that is placed there and that the caller may see. */
  placements: ListedPlacement[]
}

/** A placement as lists show it. */
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
  /** The deployment of the hub whose files are in place, as the node says; null: none, or one of its own. */
  liveDeployId: string | null
  /** The tree that svc put there last (shared/tree-text.ts); null: none, or unknown. */
  liveTree: string | null
  /** When the node said so; null: it has said nothing yet. */
  seenAt: string | null
  /** Whether files were edited there, or a deployment was made on the node itself. */
  isDrifted: boolean
}

/** A one-time token with which a machine becomes a node. */
export interface Enrollment {
  id: string
  /** The name of the node; null: the machine proposes one. */
  name: string | null
  labels: Record<string, string>
  createdAt: string
  createdBy: string
  expiresAt: string
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
