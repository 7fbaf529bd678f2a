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
