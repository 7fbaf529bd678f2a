import t from 'tap'
import { csvCells, csvHeader, entriesOf, maxPage, periodOf } from '../../../lib/cli/audit/entries.js'
import type { Client } from '../../../lib/cli/client/client.js'
import type { AuditEntry } from '../../../lib/model/audit.js'
import { stubClient } from '../../support/stub-client.js'
import { entryOf } from '../../../lib/core/audit/audit.js'

const start = Date.parse('2030-01-01T00:00:00Z')

/** Answers the pages of a log with as many entries, one each second. */
function logOf(count: number): { client: Client; asked: Array<Record<string, string | undefined>> } {
  const asked: Array<Record<string, string | undefined>> = []
  const entries = Array.from({ length: count }, (_, at) =>
    entryOf(
      { action: 'auth.login', actor: { name: 'admin', ip: null } },
      `aud_${count - at}`,
      start + (count - at) * 1000
    )
  )
  const answer = ({ query }: { query: Record<string, string | undefined> }): { items: AuditEntry[] } => {
    asked.push(query)
    const from = query['before'] === undefined ? 0 : entries.findIndex(({ id }) => id === query['before']) + 1
    return { items: entries.slice(from, from + Number(query['limit'])) }
  }
  return { client: stubClient({ 'GET /api/audit': answer }), asked }
}

async function idsOf(entries: AsyncIterable<AuditEntry>): Promise<string[]> {
  const ids: string[] = []
  for await (const { id } of entries) ids.push(id)
  return ids
}

t.test('all entries are read page by page, and a limit ends them', async t => {
  const { client, asked } = logOf(2 * maxPage + 3)
  const ids = await idsOf(entriesOf(client, {}))
  t.equal(new Set(ids).size, 2 * maxPage + 3)
  t.equal(asked.length, 3)
  t.same(await idsOf(entriesOf(client, {}, 2)), ['aud_1003', 'aud_1002'])
  t.equal((await idsOf(entriesOf(client, {}, maxPage + 1))).length, maxPage + 1)
})

t.test('what an older server lists outside the period is left out', async t => {
  const { client } = logOf(5)
  const period = { since: new Date(start + 2000).toISOString(), until: new Date(start + 4000).toISOString() }
  t.same(await idsOf(entriesOf(client, period)), ['aud_3', 'aud_2'])
})

t.test('a period has times, and is refused if it is empty', t => {
  const nowMs = Date.parse('2030-03-01T00:00:00Z')
  t.same(periodOf({ since: '30d' }, nowMs), { since: '2030-01-30T00:00:00.000Z', until: undefined })
  t.same(periodOf({ until: '2030-02-01T00:00Z' }, nowMs), { since: undefined, until: '2030-02-01T00:00:00.000Z' })
  t.throws(() => periodOf({ since: '1d', until: '2d' }, nowMs), { code: 'usage', message: /period is empty/ })
  t.throws(() => periodOf({ since: '2031-01-01' }, nowMs), { code: 'usage' }, 'in the future')
  t.throws(() => periodOf({ until: 'soon' }, nowMs), { code: 'usage', message: /--until cannot be "soon"/ })
  t.end()
})

t.test('a line of CSV has the names of projects and the whole detail', t => {
  const actor = { name: 'project:proj_a', ip: '192.0.2.1', role: 'project' }
  const event = { action: 'project.lock', actor, projectId: 'proj_a', target: 'proj_a', detail: 'shop\na: 1 → 2' }
  const cells = csvCells(entryOf(event, 'aud_1', start), new Map([['proj_a', 'shop']]))
  t.equal(cells.length, csvHeader.length)
  t.same(Object.fromEntries(csvHeader.map((name, at) => [name, cells[at]])), {
    number: '',
    time: '2030-01-01T00:00:00.000Z',
    actor: 'the deploy token of shop',
    token: '',
    role: 'project',
    address: '192.0.2.1',
    action: 'project.lock',
    ok: 'yes',
    project: 'shop',
    'project id': 'proj_a',
    target: 'proj_a',
    detail: 'shop; a: 1 → 2',
    id: 'aud_1'
  })
  t.end()
})
