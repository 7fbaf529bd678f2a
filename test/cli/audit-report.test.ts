import t from 'tap'
import {
  csvOf,
  htmlOf,
  proofLines,
  type Report,
  sectionOf,
  csvLine,
  csvCells,
  csvHeader,
  entriesOf,
  maxPage,
  periodOf
} from '../../lib/cli/audit-report.js'
import type { Client } from '../../lib/cli/client/client.js'
import type { AuditEntry } from '../../lib/model/audit.js'
import { stubClient } from '../support/stub-client.js'
import { entryOf } from '../../lib/core/audit/audit.js'
import { auditActions } from '../../lib/base/shared/audit.js'

const hostile = '=<script>alert("&")</script>'
const report: Report = {
  head: { server: 'http://127.0.0.1', since: '2030-01-01', until: '2030-02-01', by: 'admin', at: '2030-02-01' },
  rows: {
    deployments: [['2030-01-02T03:04:05.000Z', hostile, hostile, hostile, 'failed', hostile]],
    approvals: [],
    rights: [],
    settings: [],
    failures: [],
    others: []
  },
  refusedSignIns: 7,
  entries: 12,
  proof: { size: 40, root: 'cm9vdA==', key: 'svc+1+key', verdict: null }
}

t.test('each action belongs to a part, or to the rows of the deployments', t => {
  const parts = Object.fromEntries(auditActions.map(action => [action, sectionOf(action)]))
  t.match(parts, {
    'deployment.upload': null,
    'deployment.end': null,
    'deployment.undo': null,
    'deployment.promote': null,
    'deployment.approve': 'approvals',
    'deployment.reject': 'approvals',
    'deployment.confirm': 'approvals',
    'rollout.approve': 'approvals',
    'token.rotate': 'rights',
    'second_factor.enrol': 'rights',
    'audit.rotate_key': 'rights',
    'project.regenerate_token': 'rights',
    'settings.update': 'settings',
    'project.update': 'settings',
    'auth.login_failed': 'failures',
    'auth.login': 'others',
    'deploy.post_deploy_failed': 'others'
  })
  t.end()
})

t.test('the CSV has the same rows, and no formulas', t => {
  const lines = [...csvOf(report)].join('').split('\r\n')
  t.equal(lines[0], 'Part,Time,Project,Who,What,Result,Detail')
  t.ok(lines.includes('Report,,,,Refused attempts to sign in,,7'))
  const cell = `"'=<script>alert(""&"")</script>"`
  t.ok(lines.includes(['Deployments,2030-01-02T03:04:05.000Z', cell, cell, cell, 'failed', cell].join(',')))
  t.ok(lines.includes('Proof of the log,,,,Root,,cm9vdA=='))
  t.end()
})

t.test('it says how the log proved itself', t => {
  const verdict = { faults: [], entries: 40, removed: 2, size: 42 } as never
  t.match(proofLines({ ...report.proof, verdict }).at(-1), [/^Verification/, /^Verified: 40 entries .* of 42, 2 were/])
  const broken = { faults: ['Entry 7 was changed'], entries: 40, removed: 0, size: 42 } as never
  t.match(proofLines({ ...report.proof, verdict: broken }).at(-1), [/^Ver/, 'Broken: Entry 7 was changed'])
  t.match(proofLines(report.proof).at(-1), [/^Ver/, /^Not verified/])
  t.end()
})

t.test('the HTML is one file without scripts, and every text is escaped', t => {
  const html = [...htmlOf(report)].join('')
  t.notMatch(html, /<script|javascript:|<link|<img|\son\w+=/i)
  t.notMatch(html, /https?:\/\/(?!127\.0\.0\.1)/)
  t.match(html, '=&lt;script&gt;alert(&quot;&amp;&quot;)&lt;/script&gt;')
  t.match(html, '<td class="bad">failed</td>')
  t.match(html, /<dt>Refused attempts to sign in<\/dt><dd>7<\/dd>/)
  t.match(html, /Approvals, confirmations and corrections \(0\)<\/h2>\n<p>None in this period/)
  t.match(html, /<dt>Root<\/dt><dd>cm9vdA==<\/dd>/)
  t.end()
})

t.test('a line has quoted cells where RFC 4180 requires it, and no formulas', t => {
  const rows: Array<[cells: string[], line: string]> = [
    [['a', '', 'b c'], 'a,,b c\r\n'],
    [['a,b', 'say "x"', 'two\nlines', 'cr\r'], '"a,b","say ""x""","two\nlines","cr\r"\r\n'],
    [['=1+1', '+1', '-1', '@x', '\t=1'], "'=1+1,'+1,'-1,'@x,'\t=1\r\n"],
    [['=HYPERLINK("http://x","y")'], '"\'=HYPERLINK(""http://x"",""y"")"\r\n'],
    [['1=1', '2026-11-29T12:00:00.000Z'], '1=1,2026-11-29T12:00:00.000Z\r\n']
  ]
  for (const [cells, line] of rows) t.equal(csvLine(cells), line)
  t.end()
})

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
