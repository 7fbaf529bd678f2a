import type { Actor } from './audit.js'
import type { ReleaseDocument } from './fleet-wire.js'
import type { RolloutPolicy } from './rollout.js'

/** What the client of a push sent for scripts. */
export type ScriptOffer = Pick<ReleaseDocument, 'offered' | 'clientEnv'>

/** A release for the nodes of a project. */
export interface NodeRelease {
  projectId: string
  deployId: string
  treeSha256: string
  archiveSha256: string
  archiveBytes: number
  policy: RolloutPolicy
  offer: ScriptOffer
  /** The deployment whose archive a rollback deploys again; null: it is none. */
  rollbackOf: string | null
  actor: Actor
}

/** Who watches a rollout. */
export interface RolloutWatch {
  say(line: string): void
  /** Ends the watching; the rollout continues. */
  signal: AbortSignal
}

/** The end of a rollout, or the state in which it waits for a user. */
export interface RollEnd {
  outcome: 'done' | 'halted' | 'reverted'
  /** What happened, as a sentence. */
  sentence: string
}

/** Rollouts of deployments. An abort ends only the watching, and throws the reason of the signal. */
export interface Rolls {
  /** Begins a rollout and follows it. Refuses 409 `no_nodes`. */
  begin(release: NodeRelease, watch: RolloutWatch): Promise<RollEnd>
  /** Follows the rollout that an earlier process has begun. */
  follow(deployId: string, watch: RolloutWatch): Promise<RollEnd>
  /** Stops the rollout of a deployment, if it is going on. */
  halt(deployId: string, reason: string): Promise<void>
}
