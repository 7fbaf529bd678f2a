import type { Enrollment, ListedNode, ListedPlacement, NodeRelease } from '../../model/node.js'
import type { TerminalQuery, Upgraded } from './common.js'
import type { ListedRollout, ListedRolloutNode, RolloutDetail } from '../../model/rollout.js'
import type { drainFields, enrollmentFields, haltFields, nodeFields, placementFields, revertFields } from '../fleet.js'
import type { EnrollAnswer, SessionAnswer } from '../../model/fleet-wire.js'
import type { enrollFields, rangesFields, reportFields, sessionFields } from '../agent.js'

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

/** The operations of agents. model/fleet-wire.ts describes the exchange, and the texts that are signed. */
export interface AgentRoutes {
  /**
   * Make a machine a node.
   *
   * For agents. The token is used up. Each later request of the agent is signed with the key that it sends here.
   * @errors enrollment_invalid name_taken too_many_nodes
   */
  'POST /api/agent/enroll': {
    body: typeof enrollFields
    /** The node, and the key of the hub, with which orders are signed. */
    answer: { success: true } & EnrollAnswer
  }
  /**
   * Begin a session of an agent.
   *
   * For agents. The request names the session `-`, and has a nonce in place of the number, which counts once. Later
   * requests of the agent name the session, each with another number. An agent that sends no body has protocol 1: it
   * gets lines without seals.
   * @errors invalid_field server_key
   */
  'POST /api/agent/session': {
    body: typeof sessionFields
    /** The session, signed with the nonce. */
    answer: { success: true } & SessionAnswer
  }
  /**
   * Follow the orders of a node.
   *
   * For agents. One JSON object a line: `welcome`, then the orders of the node, and each change of them. Each line has
   * its number, and a signature as its last field. The stream does not end by itself.
   */
  'GET /api/agent/desired': {
    query: {
      /** Names the start of the agent: two that take turns are two machines. */
      instance?: string
    }
    /**
     * The lines.
     * @example
     * "{\"type\":\"welcome\",\"version\":\"2.0.0\",\"heartbeatMs\":15000,\"hubs\":[],\"line\":1,\"ms\":0,\"seal\":\"…\"}\n{\"type\":\"heartbeat\",\"line\":2,\"ms\":15000,\"seal\":\"…\"}\n"
     */
    media: 'application/x-ndjson'
  }
  /**
   * Read what a node needs to know about a release.
   *
   * For agents. The directory, the settings and the variables of the project, and what the client of the push sent. The
   * header `svc-signature` contains the signature of the hub.
   * @errors not_found variables_key server_key
   */
  'GET /api/agent/releases/:deployId': {
    /**
     * The release.
     * @header svc-signature The Ed25519 signature of the hub over the node, the session, the number of the request and
     * the body, in base64
     * @example "{\"deployId\":\"dep_1a2b3c4d5e6f7a8b\",\"projectId\":\"proj_1a2b3c4d5e6f7a8b\"}"
     */
    media: 'application/json'
  }
  /**
   * Download the archive of a release.
   *
   * For agents. Part of it with `Range`. All nodes together get at most the setting `fleet_upload_rate`.
   * @errors not_found
   */
  'GET /api/agent/blobs/:sha256': {
    /** The archive. */
    media: 'application/zip'
    also: {
      /** The part that `Range` names. */
      206: { media: 'application/zip' }
      /** The part does not exist. */
      416: null
    }
  }
  /**
   * Download parts of the archive of a release.
   *
   * For agents that have most of it already. The parts follow one another, without anything in between. All nodes
   * together get at most the setting `fleet_upload_rate`.
   * @errors not_found wrong_digest
   */
  'POST /api/agent/blobs/:sha256/ranges': {
    body: typeof rangesFields
    /** The parts. */
    media: 'application/octet-stream'
  }
  /**
   * Report what a node has.
   *
   * For agents. A repeated report changes nothing. An agent reports at least every 20 seconds.
   * @errors wrong_digest
   */
  'POST /api/agent/reports': {
    body: typeof reportFields
    /** The report was stored. */
    answer: { success: true }
  }
  /**
   * Send a part of the answer to a relayed request.
   *
   * For agents. The first line of the first part is the status and the headers as JSON; the bytes of the body follow.
   * Send a part again after 429. After 404, nobody waits for the answer.
   * @errors invalid_field not_found relay_full wrong_digest wrong_part
   */
  'POST /api/agent/relays/:id': {
    query: {
      /** The number of the part, from 1. @minimum 1 */
      part?: number
      /** `1`: it is the last part. */
      last?: string
    }
    /**
     * The bytes of the part.
     * @media application/octet-stream
     * @example ""
     */
    text: string
    /** The part was taken. */
    answer: { success: true }
  }
  /**
   * Read a page of a node.
   *
   * Answers what `GET /api/<path>` of the node answers to the same user, with the same query. Only paths about
   * projects, deployments, files, logs, PM2, statistics and the state of the machine are relayed. Streams and downloads
   * are relayed, too.
   * @errors node_answer node_away node_silent not_found not_relayed relay_off too_many_relays
   */
  'GET /api/nodes/:node/at/*path': {
    /** The answer of the node. */
    media: 'application/json'
  }
  /**
   * Open a terminal on a node.
   *
   * Opens a WebSocket, as `GET /api/terminal/ws` does, with a shell on the node.
   * @errors foreign_origin invalid_handshake node_away not_found upgrade_required websocket_unavailable
   */
  'GET /api/nodes/:node/terminal': {
    query: TerminalQuery
    also: Upgraded
  }
}
