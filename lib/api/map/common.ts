/* What several routes have in common. */
import type { FinalStatus } from '../../model/deployment.js'

/** A switch in a query or a form. */
export type Switch = 'true' | 'false' | '1' | '0'

/** The header with the id that a client gives its request. */
export interface Traced {
  /** An id of the client, at most 200 visible ASCII characters. `GET /api/logs?traceId=` finds the deployment by it. @maxLength 200 */
  'X-Svc-Trace-Id'?: string
}

/** The header of a stream of events that continues after an interruption. */
export interface Continued {
  /** The id of the last event that the client received. */
  'Last-Event-ID'?: string
}

/** The header of a change that must not overwrite another one. */
export interface IfUpdated {
  /**
   * The `updatedAt` of the record, in double quotes. If the current state differs, nothing changes and the status is 412.
   */
  'If-Match'?: string
}

/** The result of a deployment that the server made by itself. */
export interface Ran {
  success: boolean
  deployId: string
  /** `queued` if it waits before it begins: for an approval, or for its time. */
  status: FinalStatus | 'queued'
  duration: string | null
  /** The deployment that was rolled back to. Absent for others. */
  rollbackOf?: string
  /** The deployment of another project whose archive was deployed. Absent for others. */
  promotedFrom?: string
  error?: string | null
}

/** What the opening of a terminal takes. */
export interface TerminalQuery {
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

/** The answer to a request that opens a WebSocket. */
export interface Upgraded {
  /** The connection is switched to the WebSocket protocol. */
  101: null
}

/** Further answers of an archive that is sent in parts. */
export interface InParts {
  /** The part that `Range` names. */
  206: { media: 'application/gzip' }
  /** Not modified: the client already has the current answer. */
  304: null
  /** The part does not exist. */
  416: null
}
