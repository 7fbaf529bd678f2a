import { checked, line, type Read, record } from '../base/fields.js'
import type { troubledPhases } from '../base/shared/api.js'
import type { DeploymentRow } from './deployment.js'
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
  /** Present in lists of nodes if the node needs attention in the last rollout of the project. */
  trouble?: NodeTrouble
}

/** What is wrong with a node in a rollout. */
export interface NodeTrouble {
  rolloutId: string
  phase: (typeof troubledPhases)[number]
}

/** A release that nodes have in place, as the list of nodes names it. @schema NodeRelease */
export type NodeRelease = Pick<
  DeploymentRow,
  'id' | 'message' | 'triggerSource' | 'undoOf' | 'provenance' | 'startTime'
>

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

/**
 * Whether one of two directories of a node is the other, or below it. They are paths of another machine: what this one
 * thinks of letters and separators does not count.
 */
export function areNestedThere(one: string, other: string): boolean {
  const below = (path: string): string => path.replace(/\/?$/, '/')
  return below(one).startsWith(below(other)) || below(other).startsWith(below(one))
}

/** A release that nodes of a project have in place. @schema PlacedRelease */
export interface PlacedRelease {
  /** The deployment of the hub. Null: nothing is in place, or what was deployed on the nodes themselves. */
  deployId: string | null
  /** The checksum of its tree. Null: nothing is in place, or it is unknown. */
  tree: string | null
  /** Number of nodes, without drained ones. */
  nodes: number
  /** Number of drained nodes. */
  drained: number
  /** Number of all these nodes whose files were edited. */
  drifted: number
  /** The names of some of the nodes. */
  names: string[]
}

/** Number of nodes that a release names. */
const maxNames = 5

/** Returns the releases that the nodes of a project have, that of the most nodes first. */
export function placedReleases(
  placements: readonly ListedPlacement[],
  isDrained: (nodeId: string) => boolean
): PlacedRelease[] {
  const found = new Map<string, PlacedRelease>()
  for (const { nodeId, nodeName, liveDeployId: deployId, liveTree: tree, isDrifted } of placements) {
    const key = `${deployId} ${tree}`
    const release = found.get(key) ?? { deployId, tree, nodes: 0, drained: 0, drifted: 0, names: [] }
    found.set(key, release)
    if (isDrained(nodeId)) release.drained++
    else release.nodes++
    if (isDrifted) release.drifted++
    if (release.names.length < maxNames) release.names.push(nodeName)
  }
  return [...found.values()].sort((a, b) => b.nodes - a.nodes || b.drained - a.drained)
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

/* Labels of nodes: `zone=eu`. */

const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._/-]*$/

/** Returns why the key of a label is not usable, as the end of a sentence, or null. */
export function labelKeyFault(key: string): string | null {
  if (keyPattern.test(key) && key.length <= fleetLimits.labelLength) return null
  return `expected a name of letters, digits, ".", "_", "/" and "-", at most ${fleetLimits.labelLength} characters`
}

/** Reads the labels of a node. */
export const nodeLabels: Read<Record<string, string>> = Object.assign(
  checked(
    record(line({ max: fleetLimits.labelLength }), key => {
      const fault = labelKeyFault(key)
      return fault === null ? null : `is not a name of a label: ${fault}`
    }),
    labels => {
      const count = Object.keys(labels).length
      return count <= fleetLimits.labels ? null : `${count} labels, at most ${fleetLimits.labels} are allowed`
    }
  ),
  { example: { zone: 'eu' } }
)

/** Parses `key=value`. Returns null if the text is something else. */
export function parseLabel(text: string): { key: string; value: string } | null {
  const at = text.indexOf('=')
  const [key, value] = [text.slice(0, Math.max(0, at)), text.slice(at + 1)]
  return at < 1 || labelKeyFault(key) !== null || value.length > fleetLimits.labelLength ? null : { key, value }
}

/* Names of nodes. They are operands of commands and parts of paths, so they are one word. */

/** Returns why a text cannot be the name of a node, as the end of a sentence, or null. */
function nodeNameFault(name: string): string | null {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) return 'expected a word of letters, digits, ".", "_" and "-"'
  return /^node_/i.test(name) ? 'a name that begins with "node_" looks like an id' : null
}

/** Reads the name of a node. */
export const nodeName: Read<string> = Object.assign(
  checked(line({ min: 1, max: fleetLimits.nameLength, trim: true }), nodeNameFault),
  { example: 'web-1' }
)
