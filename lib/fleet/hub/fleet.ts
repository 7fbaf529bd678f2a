/*
 * What users do with a fleet: the interface between the routes of the API and the hub. `hub.ts` implements it.
 */
import type { ProjectScope } from '../../model/access.js'
import type { Actor } from '../../model/audit.js'
import type { Enrollment, ListedNode, ListedPlacement } from '../../model/node.js'
import type {
  ListedRollout,
  ListedRolloutNode,
  RolloutDetail,
  RolloutEvent,
  RolloutState
} from '../../model/rollout.js'

export interface Nodes {
  /** Returns the nodes by name. With a scope, only those where one of its projects is placed. */
  list(query?: { projectId?: string; label?: { key: string; value: string }; scope?: ProjectScope }): ListedNode[]
  /** Finds a node by id or name. Refuses `not_found`. */
  get(idOrName: string, scope?: ProjectScope): ListedNode
  /** Renames a node, or replaces its labels. Audited. Refuses `not_found`, `name_taken`. */
  update(id: string, change: { name?: string; labels?: Record<string, string> }, actor: Actor): Promise<ListedNode>
  /** Leaves a node out of rollouts, or lets it take part again. Audited. */
  drain(id: string, isDrained: boolean, actor: Actor): Promise<ListedNode>
  /** Removes a node: its key is no longer accepted. Its files stay. Audited. */
  forget(id: string, actor: Actor): Promise<void>
}

/** One-time tokens for machines that are to become nodes. */
export interface Enrollments {
  list(): Enrollment[]
  /** Returns the token, which is kept as a hash only. Audited. Refuses `too_many_enrollments`, `name_taken`. */
  create(
    given: { name: string | null; labels: Record<string, string>; seconds: number },
    actor: Actor
  ): Promise<{ enrollment: Enrollment; token: string }>
  /** Audited. Refuses `not_found`. */
  revoke(id: string, actor: Actor): Promise<void>
}

/** The nodes of projects. A project without placements is deployed by the hub itself. */
export interface Placements {
  ofProject(projectId: string): ListedPlacement[]
  /**
   * Places a project on nodes, with its own directory unless another is given, or removes it from nodes; its files stay.
   * `left`: the directory that the hub deployed it to until now, if these are its first nodes. Audited. Refuses
   * `not_found`, `rollout_in_progress`.
   */
  change(
    projectId: string,
    change: { add: Array<{ node: string; deployPath?: string }>; remove: string[] },
    actor: Actor
  ): Promise<{ placements: ListedPlacement[]; left?: string }>
}

/** Rollouts. Changes are audited, and refuse `not_found` and 409 `rollout_state`. */
export interface Rollouts {
  /** Returns rollouts, the newest first. */
  list(query: {
    projectId?: string
    deployId?: string
    state?: RolloutState
    scope?: ProjectScope
    limit: number
    /** Only rollouts before this one. */
    before?: string
  }): ListedRollout[]
  get(id: string): RolloutDetail
  /** Returns the project of a rollout; undefined: there is no such rollout. */
  projectOf(id: string): string | undefined
  /** Returns a node with all that is known about it. */
  node(id: string, nodeIdOrName: string): ListedRolloutNode
  halt(id: string, reason: string | null, actor: Actor): Promise<ListedRollout>
  resume(id: string, actor: Actor): Promise<ListedRollout>
  /** Lets the nodes of a wave and those after it go back; null: all. */
  revert(id: string, wave: number | null, actor: Actor): Promise<ListedRollout>
  approve(id: string, actor: Actor): Promise<ListedRollout>
  follow(id: string, signal: AbortSignal): AsyncIterable<RolloutEvent>
}

/** A fleet as users see it. */
export interface Fleet {
  nodes: Nodes
  enrollments: Enrollments
  placements: Placements
  rollouts: Rollouts
}
