import { json } from '../http/core/route.js'
import type { AuditEntry } from '../model/audit.js'
import { queryLimit, queryText } from './query.js'
import type { Handler } from './route.js'

/** Filters of the audit log. `before` is the id of an entry: only older ones are returned. */
export interface AuditQuery {
  action?: string | undefined
  projectId?: string | undefined
  limit: number
  before?: string | undefined
}

/** Handlers of the audit log. */
export function auditHandlers({ listAudit }: { listAudit(query: AuditQuery): AuditEntry[] }) {
  return {
    /** `GET /api/audit`: the entries, newest first. */
    list: ({ query }) => {
      const items = listAudit({
        action: queryText(query, 'action'),
        projectId: queryText(query, 'projectId'),
        before: queryText(query, 'before'),
        limit: queryLimit(query, 'limit', { fallback: 100, max: 500 })
      })
      return json({ items })
    }
  } satisfies Record<string, Handler>
}
