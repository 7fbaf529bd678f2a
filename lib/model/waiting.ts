import type { WaitingFor } from '../base/shared/api.js'
import type { Approval } from './policy.js'
import type { ListedLock, ListedMaintenance } from './lock.js'
import type { Instant } from './scalars.js'

/** A deployment or a rollout that waits for somebody's decision. @schema Waiting */
export interface Waiting {
  /**
   * `confirmation` of a deployment, `approval` of a deployment or of the next wave of a rollout, its time (`schedule`), or the
   * end of a `halted` rollout.
   */
  for: WaitingFor
  projectId: string
  projectName: string
  /** The deployment, also of a rollout. */
  deployId: string
  /** The rollout that waits; null: the deployment does. */
  rolloutId: string | null
  since: Instant
  /** When it ends without a decision; null: it does not. */
  until: Instant | null
  /** The named token that started the deployment. */
  tokenId: string | null
  /** The rules of its approval; null: it does not wait for one. */
  approval: Pick<Approval, 'roles' | 'notPusher'> | null
}

/** What lists of projects show beside their status. @schema Marks */
export interface Marks {
  /** What waits for somebody, the longest wait first. */
  waiting: Waiting[]
  /** The locks in force, and the projects in maintenance. */
  locks: Array<ListedLock | ListedMaintenance>
  /** The projects whose last post-deploy script failed in the background. */
  failedInBackground: string[]
  /** The projects on nodes. */
  placed: PlacedProject[]
}

/** A project on nodes, in short. */
export interface PlacedProject {
  projectId: string
  /** The first node by name. */
  first: string
  /** The number of nodes. */
  nodes: number
}
