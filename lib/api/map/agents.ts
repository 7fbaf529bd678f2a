import type { EnrollAnswer, SessionAnswer } from '../../model/fleet-wire.js'
import type { enrollFields, rangesFields, reportFields, sessionFields } from '../agent.js'

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
    query: {
      /** A ticket with the purpose "terminal". */
      ticket?: string
      /**
       * Width of the terminal in columns.
       * @minimum 1
       * @maximum 1000
       */
      cols?: number
      /**
       * Height of the terminal in rows.
       * @minimum 1
       * @maximum 1000
       */
      rows?: number
      /** The id of the project in whose target the shell starts. */
      projectId?: string
      /** The id of a terminal session to continue. */
      sessionId?: string
      /** Position in the output of the session at which to continue, in bytes. @minimum 0 */
      from?: number
    }
    also: {
      /** The connection is switched to the WebSocket protocol. */
      101: null
    }
  }
}
