import type { Enrollment, ListedNode, ListedPlacement, NodeRelease } from '../../model/node.js'
import type { ListedRollout, ListedRolloutNode, RolloutDetail } from '../../model/rollout.js'
import type { drainFields, enrollmentFields, haltFields, nodeFields, placementFields, revertFields } from '../fleet.js'

/** Nodes, enrollments, placements and rollouts. */
export interface FleetRoutes {
  /**
   * List the nodes of the fleet.
   *
   * A token that is limited to projects sees the nodes on which one of them is placed.
   * @errors invalid_field not_found
   */
  'GET /api/nodes': {
    query: {
      /** Lists only the nodes on which this project is placed. */
      projectId?: string
      /** Lists only the nodes with this label, given as name=value. */
      label?: string
    }
    /** The nodes, by name, and the releases that they have in place. */
    answer: { success: true; nodes: ListedNode[]; releases: NodeRelease[] }
  }
  /**
   * Get a node.
   *
   * The path contains the id or the name of the node.
   * @errors not_found
   */
  'GET /api/nodes/:node': {
    /** The node. */
    answer: { success: true; node: ListedNode }
  }
  /**
   * Rename a node, or replace its labels.
   *
   * Fields that are absent keep their values. A rollout that has begun keeps its waves.
   * @errors not_found name_taken
   */
  'PATCH /api/nodes/:node': {
    body: typeof nodeFields
    /** The changed node. */
    answer: { success: true; node: ListedNode }
  }
  /**
   * Leave a node out of rollouts, or let it take part again.
   *
   * A node that has begun to put files in place finishes that. A node that takes part again gets what is desired now.
   * @errors not_found
   */
  'PUT /api/nodes/:node/drain': {
    body: typeof drainFields
    /** The changed node. */
    answer: { success: true; node: ListedNode }
  }
  /**
   * Remove a node from the fleet.
   *
   * Its key is no longer accepted, and it leaves all projects and rollouts. Its files stay.
   * @errors not_found
   */
  'DELETE /api/nodes/:node': {
    /** The node was removed. */
    answer: { success: true; message: string }
  }
  /** List the enrollment tokens that are still valid. */
  'GET /api/enrollments': {
    /** The enrollments, without their secrets. */
    answer: { success: true; enrollments: Enrollment[] }
  }
  /**
   * Create a token with which one machine becomes a node.
   *
   * Only this answer contains the token, which the server keeps as a hash. It can be used once. It also names the key
   * of the server, so that the machine accepts orders of this server only.
   * @errors name_taken too_many_enrollments
   */
  'POST /api/enrollments': {
    body?: typeof enrollmentFields
    /** The token, and the command to run on the machine. */
    answer: { success: true; enrollment: Enrollment; token: string; command: string }
  }
  /** Revoke an enrollment token. @errors not_found */
  'DELETE /api/enrollments/:id': {
    /** The token was revoked. */
    answer: { success: true; message: string }
  }
  /**
   * List the nodes on which a project is placed.
   *
   * The list is empty if the server deploys the project itself.
   * @errors not_found
   */
  'GET /api/projects/:id/placements': {
    /** The placements, by name of the node. */
    answer: { success: true; placements: ListedPlacement[] }
  }
  /**
   * Place a project on nodes, or remove it from nodes.
   *
   * Nodes are named by id or name. A new node gets the release that is desired now. The files on a removed node stay.
   * @errors not_found rollout_in_progress
   */
  'PATCH /api/projects/:id/placements': {
    body: typeof placementFields
    answer: {
      success: true
      /** All placements after the change. */
      placements: ListedPlacement[]
      /**
       * The directory of this server that the project was deployed to until now. What is in it stays, and no deployment
       * changes it any more. Absent: there is none.
       */
      left?: string
    }
  }
  /**
   * List rollouts, newest first.
   *
   * A deploy token gets the rollouts of its own project.
   * @errors invalid_field not_found other_project
   */
  'GET /api/rollouts': {
    query: {
      /** Lists only the rollouts of this project. */
      projectId?: string
      /** Lists only the rollouts of this deployment. */
      deployId?: string
      /** Lists only rollouts in this state. */
      state?: 'preparing' | 'swapping' | 'pausing' | 'approval' | 'halted' | 'reverting' | 'reverted' | 'done'
      /** Maximum number of items. Default: 50. Values above 500 are lowered to 500. @minimum 1 */
      limit?: number
      /** Lists only rollouts before the one with this id. */
      before?: string
    }
    /** The rollouts. */
    answer: { success: true; rollouts: ListedRollout[] }
  }
  /** Get a rollout with its nodes. @errors not_found other_project */
  'GET /api/rollouts/:rolloutId': {
    /** The rollout, its nodes sorted by wave and name. */
    answer: { success: true; rollout: RolloutDetail }
  }
  /**
   * Get a node of a rollout.
   *
   * The path contains the id or the name of the node.
   * @errors not_found other_project
   */
  'GET /api/rollouts/:rolloutId/nodes/:node': {
    /** The node, with the end of its output. */
    answer: { success: true; node: ListedRolloutNode }
  }
  /**
   * Follow a rollout.
   *
   * One JSON object in each line. The first line is `rollout`; then `node` for each node that changes, and `state` when
   * the rollout changes. The stream ends after the line `end`, when the rollout is halted, reverted or done.
   * @errors not_found other_project
   */
  'GET /api/rollouts/:rolloutId/events': {
    /** The events as newline-delimited JSON. */
    media: 'application/x-ndjson'
  }
  /**
   * Halt a rollout.
   *
   * No other node begins. A node that has begun finishes. `resume` and `revert` are possible afterwards.
   * @errors *rollout
   */
  'POST /api/rollouts/:rolloutId/halt': {
    body?: typeof haltFields
    /** The rollout. */
    answer: { success: true; rollout: ListedRollout }
  }
  /**
   * Continue a rollout that was halted or reverted.
   *
   * Nodes that failed try again. Nodes that do not answer are skipped.
   * @errors *rollout
   */
  'POST /api/rollouts/:rolloutId/resume': {
    /** The rollout. */
    answer: { success: true; rollout: ListedRollout }
  }
  /**
   * Put back the files before a rollout.
   *
   * Each node that has the release undoes its deployment. Its earlier files are restored exactly.
   * @errors *rollout
   */
  'POST /api/rollouts/:rolloutId/revert': {
    body?: typeof revertFields
    /** The rollout. */
    answer: { success: true; rollout: ListedRollout }
  }
  /**
   * Begin the next wave of a rollout.
   *
   * Possible while the rollout waits for an approval, or pauses.
   * @errors *rollout
   */
  'POST /api/rollouts/:rolloutId/approve': {
    /** The rollout. */
    answer: { success: true; rollout: ListedRollout }
  }
}
