import t, { type Test } from 'tap'
import { createSteadyClock } from '../../lib/base/clock.js'
import type { Project } from '../../lib/model/project.js'
import { serve } from '../../lib/server/serve.js'
import { createClient } from '../support/client.js'
import { adminToken, startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'

const hourMs = 60 * 60_000

/** Starts a server on a machine whose clock can be set. */
async function stageOf(t: Test): Promise<{ stage: Stage; set(ms: number): void }> {
  let offsetMs = 0
  const clock = createSteadyClock({ machine: () => Date.now() + offsetMs })
  return { stage: await startServer(t, { clock }), set: ms => void (offsetMs += ms) }
}

async function push({ as }: Pick<Stage, 'as'>, project: Project): Promise<string> {
  const reply = await as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'a.txt': 'a' }) }]
  ])
  return reply.headers['x-svc-deploy-id'] as string
}

t.test('keeps the order and gives no negative duration if the clock is set back', async t => {
  const { stage, set } = await stageOf(t)
  const { client } = stage
  const shop = await stage.createProject('shop')
  const ids = [await push(stage, shop)]
  for (const ms of [-hourMs, 10 * 60_000, -3 * hourMs]) {
    set(ms)
    ids.unshift(await push(stage, shop))
  }
  const rows = (await client.get('/api/logs')).body as Array<{
    id: string
    duration: string
    startTime: string
    endTime: string
  }>
  t.strictSame(
    rows.map(({ id }) => id),
    ids,
    'newest first'
  )
  for (const { duration, startTime, endTime } of rows) {
    t.match(duration, /^\d+\.\d\ds$/)
    t.ok(parseFloat(duration) < 600 && startTime <= endTime)
  }
  const at = ((await client.get('/api/audit?limit=500')).body.items as Array<{ at: string }>).map(({ at }) => at)
  t.strictSame(at, [...at].sort().reverse(), 'the audit log is in the same order')
})

t.test('keeps durations correct, however the clock is set', async t => {
  const { stage, set } = await stageOf(t)
  const { client } = stage
  for (const ms of [hourMs, -30 * hourMs, 400 * 24 * hourMs]) {
    const { ticket } = (await client.post('/api/tickets', { purpose: 'download' })).body
    set(ms)
    t.equal(
      (await stage.as(null).get(`/api/migration/export?ticket=${ticket}`)).status,
      200,
      `a ticket, set by ${ms} ms`
    )
  }
  const guess = () => stage.as(null).post('/api/auth/login', { token: 'a-guess' })
  for (let n = 0; n < 8; n++) await guess()
  for (const ms of [0, hourMs, -30 * hourMs]) {
    set(ms)
    const { status, headers } = await guess()
    t.equal(status, 429, `a lock, set by ${ms} ms`)
    t.ok(Number(headers['retry-after']) > 200 && Number(headers['retry-after']) <= 300)
  }
  const { uptime } = (await client.get('/api/health')).body
  t.ok(uptime >= 0 && uptime < 600)
})

t.test('keeps the archive of the live deployment if the clock is set back by days', async t => {
  const { stage, set } = await stageOf(t)
  const { client } = stage
  await client.put('/api/settings', { keep_archives: '1' })
  const shop = await stage.createProject('shop')
  await push(stage, shop)
  set(-48 * hourMs)
  await push(stage, shop)
  const live = await push(stage, shop)
  t.match((await client.get(`/api/logs/${live}`)).body, { status: 'success', hasArtifact: true })
})

for (const [aheadMs, isWarned] of [
  [2 * hourMs, true],
  [30_000, false],
  [-2 * hourMs, false]
] as const) {
  t.test(`continues after recorded times that are ${aheadMs} ms ahead of the clock`, async t => {
    const { stage, set } = await stageOf(t)
    const shop = await stage.createProject('shop')
    set(aheadMs)
    const ids = [await push(stage, shop)]
    await stage.server.stop({ wait: true })
    const warnings: string[] = []
    const report = { info: () => {}, warn: (line: string) => void warnings.push(line) }
    const { home, environment } = stage
    const server = await serve({ home, port: 0, cwd: home.directory, environment, report })
    t.teardown(() => server.stop({ wait: false }))
    const as: Stage['as'] = token => createClient(() => server.url, token)
    ids.unshift(await push({ as }, shop))
    const rows = (await as(adminToken).get('/api/logs')).body as Array<{ id: string; startTime: string }>
    t.strictSame(
      rows.map(({ id }) => id),
      ids,
      'newest first'
    )
    t.equal(Date.parse(rows[0]?.startTime ?? '') > Date.now(), aheadMs > 0, 'in the future only if records are')
    t.equal(
      warnings.some(line =>
        /clock of this machine is behind: .* newest deployment is from .* Set the clock/.test(line)
      ),
      isWarned
    )
  })
}
