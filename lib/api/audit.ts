import type { Caller } from '../auth/bearer.js'
import { json } from '../http/core/route.js'
import { includesRole } from '../model/access.js'
import type { AccessRole } from '../model/access.js'
import type { AuditEntry } from '../model/audit.js'
import type { AuditReader } from '../store/tables/audit.js'
import { queryLimit, queryText } from './query.js'
import type { Handler } from './route.js'

/** Filters of the audit log. `before` is the id of an entry: only older ones are returned. */
export interface AuditQuery {
  action?: string | undefined
  projectId?: string | undefined
  tokenId?: string | undefined
  /** The caller, if it may not read every entry. */
  seenBy: AuditReader | undefined
  limit: number
  before?: string | undefined
}

/** Handlers of the audit log. */
export function auditHandlers({ listAudit }: { listAudit(query: AuditQuery): AuditEntry[] }) {
  return {
    /** `GET /api/audit`: the entries, newest first. */
    list: ({ query, actor }) => {
      const items = listAudit({
        action: queryText(query, 'action'),
        projectId: queryText(query, 'projectId'),
        tokenId: queryText(query, 'tokenId'),
        seenBy: readerOf(actor),
        before: queryText(query, 'before'),
        limit: queryLimit(query, 'limit', { fallback: 100, max: 500 })
      })
      return json({ items })
    }
  } satisfies Record<string, Handler>
}

/**
 * Viewers and deployers read their own entries, an operator also those of its projects. Undefined: the caller reads all.
 */
function readerOf({ token, role, projects }: Caller): AuditReader | undefined {
  if (token === undefined) return undefined
  const isOperator = includesRole(role as AccessRole, 'operator')
  if (isOperator && projects === null) return undefined
  return { tokenId: token.id, projects: isOperator ? (projects ?? []) : [] }
}
