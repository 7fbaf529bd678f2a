/*
 * The month of an auditor: four people work for 31 days, with approvals, a lock, an undo, changed rights and settings,
 * refused attempts. At its end the auditor, who can only read, asks for the report of the month. Each act is in it once, in
 * its part, with who and when; what happened before and after is not; and the log proves itself.
 */
import t from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { NewToken } from '../../lib/model/access.js'
import { setClock } from '../support/clock.js'
import { startServer } from '../support/server.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'
import { zipOf } from '../support/zip.js'

const dayMs = 86_400_000
const begin = Date.parse('2030-03-01T08:00:00Z')

/** A line of the CSV: part, time, project, who, what, result, detail. */
type Line = [part: string, time: string, project: string, who: string, what: string, result: string, detail: string]

const linesOf = (csv: string): Line[] =>
  csv
    .trimEnd()
    .split('\r\n')
    .slice(1)
    .map(line => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].slice(0, 7).map(([, cell]) => cell) as Line)

t.test("an auditor's month", async t => {
  const clock = setClock(begin - dayMs)
  const stage = await startServer(t, { clock })
  const { client } = stage
  const onDay = (day: number): void => clock.advance(begin + (day - 1) * dayMs - clock.now())
  const person = async (name: string, role: string): Promise<string> =>
    ((await client.post('/api/tokens', { name, role })).body as NewToken).token
  const tokens = {
    ana: await person('ana', 'operator'),
    ben: await person('ben', 'operator'),
    dan: await person('dan', 'deployer'),
    eve: await person('eve', 'viewer')
  }
  const [ana, ben, dan] = [stage.as(tokens.ana), stage.as(tokens.ben), stage.as(tokens.dan)]
  const staging = await stage.createProject('shop-staging')
  const shop = await stage.createProject('shop')
  const push = async (by: typeof ana, project: { id: string }, text: string, more: [string, string][] = []) => {
    const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': text }) }
    return by.upload([['projectId', project.id], ...more, ['message', `Release ${text}`], ['file', file]])
  }
  await push(dan, staging, 'before the month')

  onDay(1)
  const approval = { count: 1, roles: ['operator'], notPusher: true, hours: 48 }
  await client.put(`/api/projects/${shop.id}`, { policy: { approval, promoteFrom: { projectId: staging.id } } })

  onDay(3)
  await push(dan, staging, '1')
  const [staged] = (await client.get(`/api/logs?projectId=${staging.id}`)).body as Array<{ id: string }>
  const promoted = ana.post(`/api/projects/${shop.id}/promote`, { from: staged?.id })
  const held = async (): Promise<{ id: string; treeSha256: string } | undefined> => {
    const rows = (await client.get(`/api/logs?projectId=${shop.id}`)).body
    return (rows as Array<{ id: string; treeSha256: string; heldFor: string }>).find(row => row.heldFor === 'approval')
  }
  await until(async () => (await held()) !== undefined)
  const waiting = (await held()) as { id: string; treeSha256: string }
  const decision = { treeSha256: waiting.treeSha256, comment: 'seen on staging' }
  t.match(await ana.post(`/api/deployments/${waiting.id}/approve`, decision), { status: 403 }, 'not by oneself')
  t.match(await ben.post(`/api/deployments/${waiting.id}/approve`, decision), { status: 200 })
  await promoted

  onDay(7)
  await client.put(`/api/projects/${staging.id}`, { postDeployScript: 'exit 3' })
  await push(dan, staging, '2')
  t.match(await client.put(`/api/projects/${staging.id}`, { postDeployScript: '' }), { status: 200 })

  onDay(10)
  t.match(await ben.post(`/api/projects/${staging.id}/undo`, {}), { status: 200 })

  onDay(14)
  await client.put('/api/settings', { keep_archives: '9' })
  const { items: known } = (await client.get('/api/tokens')).body as { items: Array<{ id: string; name: string }> }
  const idOf = (name: string): string => known.find(token => token.name === name)?.id as string
  t.match(await client.patch(`/api/tokens/${idOf('dan')}`, { role: 'viewer' }), { status: 200 })
  t.match(await push(dan, staging, 'refused'), { status: 403 }, 'a viewer cannot push')

  onDay(20)
  await ana.put(`/api/projects/${staging.id}/lock`, { reason: 'Migration of the database' })
  t.match(await push(ben, staging, 'locked out'), { status: 409 })
  await ana.delete(`/api/projects/${staging.id}/lock`)
  for (let attempt = 0; attempt < 3; attempt++) await stage.as('wrong-secret-of-a-stranger').get('/api/projects')

  onDay(25)
  await client.delete(`/api/tokens/${idOf('ana')}`)
  onDay(33)
  await push(ben, staging, 'after the month')
  await client.put('/api/settings', { keep_archives: '5' })

  const cwd = stage.sites
  const auditor = { cwd, env: { SVC_SERVER_URL: stage.url, SVC_TOKEN: tokens.ben } }
  const period = ['--since', '2030-03-01', '--until', '2030-04-01']
  const report = async (...more: string[]): Promise<string> => {
    const made = await svc(['audit', 'report', ...period, '--out', 'report', ...more], auditor)
    t.match(made, { code: 0 }, made.stderr)
    return readFileSync(join(cwd, 'report'), 'utf8')
  }
  const lines = linesOf(await report('--format', 'csv'))
  const of = (part: string): Line[] => lines.filter(line => line[0] === part)
  const on = (part: string, day: number): Line[] =>
    of(part).filter(line => line[1].startsWith(`2030-03-${String(day).padStart(2, '0')}`))

  t.match(
    on('Deployments', 3).map(([, , project, who, , result]) => [project, who, result]),
    [
      ['shop', /ana/, 'success'],
      ['shop-staging', /dan/, 'success']
    ]
  )
  t.match(on('Deployments', 7), [['Deployments', /./, 'shop-staging', /dan/, /dep_/, 'failed', /exit code 3/]])
  t.match(on('Deployments', 10), [['Deployments', /./, 'shop-staging', /ben/, /undo|dep_/i, 'success', /./]])
  t.equal(of('Deployments').length, 4, 'those of the month, and no refused ones')
  t.match(of('"Approvals, confirmations and corrections"'), [
    [/./, /^2030-03-03/, 'shop', /ben/, 'deployment.approve', 'done', /seen on staging/]
  ])
  const text = lines.map(line => line.join(' ')).join('\n')
  t.match(text, /2030-03-14.*token\.update.*role: deployer → viewer/)
  t.match(text, /2030-03-14.*settings\.update.*keep_archives: \d+ → 9/)
  t.notMatch(text, /→ 5\b/, 'what was changed later is not in it')
  t.match(text, /2030-03-20.*lock.*Migration of the database/)
  t.match(text, /2030-03-25.*token\.revoke.*ana/)
  t.match(
    of('Report').find(([, , , , what]) => /Refused attempts/.test(what)),
    [/./, '', '', '', /./, '', /^[1-9]/]
  )
  const times = lines.map(([, time]) => time).filter(time => time !== '')
  t.ok(times.length > 10 && times.every(time => time >= '2030-03-01' && time < '2030-04-01'), 'of the month only')
  t.match(text, /Verified: \d+ entries match the checkpoint/)

  const html = await report()
  t.match(html, /<h2>Deployments \(4\)<\/h2>/, 'the page says the same')
  t.match(html, 'Verified: ')
  // What waits is neither queued nor running, although the record says so.
  onDay(34)
  t.match(await client.put(`/api/projects/${shop.id}`, { policy: { promoteFrom: null } }), { status: 200 })
  const again = push(ben, shop, 'again')
  await until(async () => (await held()) !== undefined)
  const startAt = new Date(begin + 34 * dayMs).toISOString()
  const scheduled = push(ben, staging, 'at night', [['startAt', startAt]])
  await until(async () => ((await client.get('/api/marks')).body as { waiting: unknown[] }).waiting.length === 2)
  const since = ['--since', '2030-04-03', '--until', '2030-04-10', '--out', 'now']
  for (const format of ['csv', 'html']) {
    t.match(await svc(['audit', 'report', ...since, '--format', format], auditor), { code: 0, stderr: '' })
    const now = readFileSync(join(cwd, 'now'), 'utf8')
    t.match(now, 'waits for approval until 2030-04-05 08:00 UTC', format)
    t.match(now, 'begins at 2030-04-04 08:00 UTC', format)
    t.notMatch(now, /\b(queued|running)\b/, format)
  }
  const [{ id: nightly }] = (await client.get(`/api/logs?projectId=${staging.id}`)).body as [{ id: string }]
  for (const id of [nightly, (await held())?.id as string]) await client.post(`/api/deployments/${id}/cancel`, {})
  await Promise.all([again, scheduled])

  for (const secret of Object.values(tokens)) t.notMatch(html + text, secret, 'no secret is in it')

  const eve = { cwd, env: { SVC_SERVER_URL: stage.url, SVC_TOKEN: tokens.eve } }
  t.match(await svc(['audit', 'report', ...period, '--out', 'eve'], eve), { code: 0 })
  t.match(readFileSync(join(cwd, 'eve'), 'utf8'), /Not verified: only an operator/, 'a viewer is told what is missing')
})
