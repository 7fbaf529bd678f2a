import type { Caller } from '../access/bearer.js'
import { instantOf } from '../base/clock.js'
import { invalid, type Refusal } from '../base/errors.js'
import { instant } from '../base/fields.js'
import { auditActions, isAuditAction } from '../base/shared/audit-actions.js'
import { closest } from '../base/text.js'
import { streamHeaders } from '../http/core/reply.js'
import { json } from '../http/core/route.js'
import { type AccessRole, includesRole } from '../model/access.js'
import type { AuditReader } from '../core/store/tables/audit.js'
import { type Handler, queryLimit, queryText } from './route.js'
import type { ApiServices } from './services.js'

/** What an export holds while its client does not read: a block of entries. */
const exportedBytes = 256 * 1024

/** Handlers of the audit log. */
export async function auditHandlers({ listAudit, keeper, audit, clock, ...doors }: ApiServices) {
  const proofs = await doors.proofs()
  return {
    /** `GET /api/audit`: the entries, newest first. */
    list: ({ query, actor }) => {
      const action = queryText(query, 'action')
      const before = queryText(query, 'before')
      const items = listAudit({
        action,
        projectId: queryText(query, 'projectId'),
        tokenId: queryText(query, 'tokenId'),
        tokenName: queryText(query, 'tokenName'),
        seenBy: readerOf(actor),
        since: queryTime(query, 'since'),
        until: queryTime(query, 'until'),
        before,
        limit: queryLimit(query, 'limit', { fallback: 100, max: 500 })
      })
      // An earlier version may have recorded an action that this one does not know.
      if (items.length === 0 && before === undefined && action !== undefined && !isAuditAction(action))
        throw unknownAction(action)
      return json({ items })
    },

    /** `GET /api/audit/checkpoint`: a signed checkpoint of all entries. */
    checkpoint: async () => json(await proofs.checkpoint()),

    /** `GET /api/audit/proof`: the proof that a tree of `to` entries begins with the tree of `from`. */
    proof: ({ query }) => {
      const from = querySize(query, 'from')
      if (from === undefined) throw invalid('from', 'The parameter "from" is missing')
      return json(proofs.consistency(from, querySize(query, 'to')))
    },

    /** `GET /api/audit/inclusion`: the proof that an entry is in the tree. */
    inclusion: async ({ query }) => {
      const id = queryText(query, 'id')
      if (id === undefined) throw invalid('id', 'The parameter "id" is missing')
      return json(await proofs.inclusion(id))
    },

    /** `POST /api/audit/key`: replaces the key that signs checkpoints. */
    rotateKey: async ({ actor }) => json({ success: true, ...(await keeper.rotateKey(actor)) }),

    /** `GET /api/audit/export`: the entries and what proves them, as JSON lines. */
    export: async ({ query, actor }) => {
      const range = { from: queryNumber(query, 'from'), to: queryNumber(query, 'to') }
      await audit.record({ action: 'audit.export', actor })
      const pieces = await proofs.export(range)
      const at = instantOf(clock).slice(0, 19).replaceAll(':', '-')
      return {
        kind: 'stream',
        status: 200,
        heldBytes: exportedBytes,
        headers: {
          ...streamHeaders,
          'content-type': 'application/x-ndjson',
          'content-disposition': `attachment; filename="svc-audit-${at}.jsonl"`
        },
        async run(sink) {
          for await (const piece of pieces) await sink.write(piece)
        }
      }
    }
  } satisfies Record<string, Handler>
}

/** Reads a time in the query, as the text that the log has. */
function queryTime(query: URLSearchParams, field: string): string | undefined {
  const given = queryText(query, field)
  return given === undefined ? undefined : new Date(instant(given, field)).toISOString()
}

function unknownAction(action: string): Refusal {
  const near = closest(action, auditActions)
  const hint = near === undefined ? '' : `Did you mean "${near}"? `
  const known = auditActions.join(', ')
  return invalid('action', `"action" is "${action}": svc does not record such an action. ${hint}Known: ${known}`)
}

/** Reads the size of a tree in the query. */
function querySize(query: URLSearchParams, field: string): number | undefined {
  const given = queryText(query, field)
  if (given === undefined || /^\d{1,15}$/.test(given)) return given === undefined ? undefined : Number(given)
  throw invalid(field, `"${field}" is "${given}": expected the size of a tree, a whole number from 0`)
}

/** Reads the number of an entry in the query. */
function queryNumber(query: URLSearchParams, field: string): number | undefined {
  const given = querySize(query, field)
  if (given !== 0) return given
  throw invalid(field, `"${field}" is 0: entries are numbered from 1`)
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
