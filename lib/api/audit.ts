import { json } from '../http/route.js'
import type { AuditEntry } from '../model/audit.js'
import { queryLimit, queryText } from './fields.js'
import type { Handler } from './route.js'

export interface AuditQuery {
  action?: string | undefined
  projectId?: string | undefined
  limit: number
  before?: string | undefined
}

/** The audit log, newest first. */
export function auditHandlers({ listAudit }: { listAudit(query: AuditQuery): AuditEntry[] }) {
  return {
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
