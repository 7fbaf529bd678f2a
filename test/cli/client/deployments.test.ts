import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { completeDeployment, listDeployments, newestBefore } from '../../../lib/cli/client/deployments.js'
import { followRun, planRun, type RunEvent, startRun } from '../../../lib/cli/client/runs.js'
import { isBroken, mayRepeat } from '../../../lib/cli/client/streams.js'
import { headline, starterWords } from '../../../lib/cli/terminal/deployments.js'
import type { UploadPermit } from '../../../lib/model/access.js'
import type { ListedDeployment } from '../../../lib/model/deployment.js'
import { clientOf } from '../../support/client-of.js'

async function all(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const list: RunEvent[] = []
  for await (const event of events) list.push(event)
  return list
}

const log = (id: number, text: string) =>
  `event: log\nid: ${id}\ndata: ${JSON.stringify({ data: text, at: 'then' })}\n\n`
const status = 'event: status\ndata: {"status":"success","duration":"1.00s"}\n\n'

t.test('follow resumes a broken stream at its last position', async t => {
  const asked: Array<string | undefined> = []
  let broken = 0
  const client = await clientOf(t, (request, response) => {
    asked.push(request.headers['last-event-id'] as string | undefined)
    if (asked.length === 2) return void response.writeHead(502, { 'content-type': 'text/html' }).end()
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (asked.length === 1) response.write(`${log(7, 'one')}event: log\nid: 9\ndata: {"da`, () => response.destroy())
    else response.end(`:keep-alive\n\n${log(9, 'two')}${status}`)
  })
  t.same(await all(followRun(client, 'dep_1', { onBroken: () => void broken++ })), [
    { event: 'log', text: 'one', at: 'then' },
    { event: 'log', text: 'two', at: 'then' },
    { event: 'status', status: 'success', duration: '1.00s', deployId: null }
  ])
  t.same(asked, [undefined, '7', '7'])
  t.equal(broken, 2)
})

t.test('follow does not repeat a refused request', async t => {
  let asked = 0
  const client = await clientOf(t, (_, response) => {
    asked++
    response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"There is none","code":"not_found"}')
  })
  await t.rejects(all(followRun(client, 'dep_1', {})), { message: 'There is none' })
  t.equal(asked, 1)
})

t.test('a stream that ends without a status is an error', async t => {
  const client = await clientOf(t, (_, response) => {
    response
      .writeHead(200, { 'content-type': 'application/x-ndjson', 'x-svc-deploy-id': 'dep_1' })
      .end('{"event":"log","data":"one"}\n')
  })
  const run = await startRun(client, 'POST /api/deployments/:id/rollback', { id: 'dep_0' })
  t.equal(run.deployId, 'dep_1')
  await t.rejects(all(run.events), { message: 'The connection to the server was lost' })
})

t.test('ids are escaped in paths', async t => {
  const urls: Array<string | undefined> = []
  const client = await clientOf(t, (request, response) => {
    urls.push(request.url)
    response.writeHead(200, { 'content-type': 'application/json' }).end('[]')
  })
  await client.call('GET /api/projects/:id', { id: 'a/../b?c' })
  await listDeployments(client, { projectId: 'p&q', limit: 3 })
  t.same(urls, ['/api/projects/a%2F..%2Fb%3Fc', '/api/logs?projectId=p%26q&limit=3'])
})

t.test('the newest deployment is that of the permit; only an older server is asked', async t => {
  const urls: Array<string | undefined> = []
  let rows: unknown = [{ id: 'dep_b', projectId: 'proj_a' }]
  const client = await clientOf(t, (request, response) => {
    urls.push(request.url)
    const status = rows === null ? 500 : 200
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(rows))
  })
  const asked = { projectId: 'proj_a', signal: new AbortController().signal }
  const newest = (permit: { newest?: string | null } | null) => newestBefore(client, permit as UploadPermit, asked)
  t.strictSame([await newest({ newest: 'dep_a' }), await newest({ newest: null }), urls], ['dep_a', null, []])
  t.equal(await newest({}), 'dep_b')
  rows = []
  t.equal(await newest(null), null)
  rows = null
  t.equal(await newest(null), undefined, 'what is not known is not taken for nothing')
  t.equal(urls.length, 3)
})

t.test('isBroken distinguishes temporary from permanent errors', async t => {
  t.ok(isBroken(new Refusal('unavailable', 'unreachable', '')))
  t.ok(isBroken(Object.assign(new Error('aborted'), { code: 'ECONNRESET' })))
  t.notOk(isBroken(new Refusal('unauthorized', 'unauthorized', '')))
  t.notOk(isBroken(new TypeError()))
  t.notOk(isBroken(new Refusal('unavailable', 'no_leader', '')), 'the server has answered')
})

t.test('mayRepeat allows a read while a cluster has no leader', async t => {
  for (const code of ['no_leader', 'not_leader', 'leader_lost', 'stream_broken'])
    t.ok(mayRepeat(new Refusal('unavailable', code, '', { retryAfterSeconds: 1 })), code)
  t.notOk(mayRepeat(new Refusal('unavailable', 'no_leader', '')), 'a problem that lasts names no time to wait')
  t.notOk(mayRepeat(new Refusal('unauthorized', 'unauthorized', '')))
})

const other = { id: 'dep_1', projectId: 'p', projectName: 'Shop', status: 'success', triggerSource: 'cli' }

t.test('completes the record of another server of the interface', async t => {
  const row = completeDeployment(other as unknown as ListedDeployment)
  t.match(row, { ...other, rollbackOf: null, message: null, provenance: null, env: '', hasArtifact: true })
  t.equal(headline(row), 'Shop: cli')
  t.equal(starterWords(row), 'cli')
  const has = (artifactPath: string | null): boolean =>
    completeDeployment({ ...other, artifactPath } as unknown as ListedDeployment).hasArtifact
  t.strictSame([has(null), has('deployments/dep_1.zip')], [false, true])
})

t.test('changes nothing that svc sends', async t => {
  const own = { ...other, rollbackOf: 'dep_0', message: 'm', provenance: null, env: 'staging', hasArtifact: false }
  t.strictSame(completeDeployment(own as unknown as ListedDeployment), own as unknown as ListedDeployment)
})

t.test('a server without promotions is too old; a record that is missing is not', async t => {
  let error = 'Not found: POST /api/projects/proj_1/promote'
  const client = await clientOf(t, (_, response) => {
    response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ error, code: 'not_found' }))
  })
  const asked = { id: 'proj_1', from: 'dep_1' }
  const plan = (): Promise<unknown> => planRun(client, 'POST /api/projects/:id/promote', asked)
  const run = (): Promise<unknown> => startRun(client, 'POST /api/projects/:id/promote', asked)
  for (const ask of [plan, run])
    await t.rejects(ask(), { code: 'server_too_old', message: 'The server is too old for promotions. Update it' })
  error = 'Deployment not found: "dep_1"'
  for (const ask of [plan, run]) await t.rejects(ask(), { code: 'not_found', message: error })
})
