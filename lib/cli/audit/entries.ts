import type { Client } from '../client/client.js'
import { actorText } from '../../base/shared/api.js'
import { detailLine } from '../../base/shared/audit-changes.js'
import type { AuditEntry } from '../../model/audit.js'
import { findProject, isProjectId } from '../client/named-project.js'
import { usage } from '../command.js'
import { timeOption } from '../common-options.js'

/** Maximum number of entries in one answer. */
export const maxPage = 500

/** Which entries are asked for. */
export interface EntryQuery {
  action?: string | undefined
  projectId?: string | undefined
  tokenName?: string | undefined
  since?: string | undefined
  until?: string | undefined
  before?: string | undefined
}

/** Yields entries, the newest first, page by page. Without `limit`, all of them. */
export async function* entriesOf(client: Client, query: EntryQuery, limit = Infinity): AsyncGenerator<AuditEntry> {
  let before = query.before
  for (let left = limit; left > 0; ) {
    const size = Math.min(maxPage, left)
    const { items } = await client.call('GET /api/audit', { query: { ...query, before, limit: size } })
    // A server that is too old ignores the times.
    yield* items.filter(({ at }) => (query.since ?? '') <= at && (query.until === undefined || at < query.until))
    left -= items.length
    before = items.at(-1)?.id
    if (items.length < size) return
  }
}

/** Returns the id of a project by its id or name. An id that no project has may be that of a deleted one. */
export async function projectIdFor(client: Client, word: string | undefined): Promise<string | undefined> {
  return word === undefined || isProjectId(word) ? word : (await findProject(client, word)).id
}

/** Returns the times of `--since` and `--until` as the server takes them. Refuses a period that is empty. */
export function periodOf(
  { since, until }: { since?: string | undefined; until?: string | undefined },
  nowMs: number
): { since: string | undefined; until: string | undefined } {
  const [from, to] = [
    since === undefined ? undefined : timeOption('--since', since, nowMs),
    until === undefined ? undefined : timeOption('--until', until, nowMs)
  ]
  if (from !== undefined && from >= (to ?? nowMs + 1))
    throw usage('--until', 'The period is empty: --until must be after --since')
  return { since: from && new Date(from).toISOString(), until: to && new Date(to).toISOString() } as never
}

/** The columns of an entry as CSV. */
export const csvHeader = 'number,time,actor,token,role,address,action,ok,project,project id,target,detail,id'.split(',')

/** Returns an entry as the cells of a CSV line. */
export function csvCells(entry: AuditEntry, names: ReadonlyMap<string, string>): string[] {
  const { seq, at, actor, tokenName, role, ip, action, ok, projectId, target, detail, id } = entry
  const project = projectId === null ? '' : (names.get(projectId) ?? '')
  const texts = [tokenName, role, ip, action, ok ? 'yes' : 'no', project, projectId, target].map(text => text ?? '')
  const who = actorText(actor, each => names.get(each))
  return [seq === null ? '' : String(seq), at, who, ...texts, detailLine(detail ?? ''), id]
}
