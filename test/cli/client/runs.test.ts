import type * as http from 'node:http'
import t from 'tap'
import {
  checkUpload,
  listDeployments,
  completeDeployment,
  newestBefore,
  followRun,
  type RunEvent,
  sayingWait,
  startRun,
  planRun
} from '../../../lib/cli/client/runs.js'
import type { Client } from '../../../lib/cli/client/client.js'
import { waitingRows } from '../../../lib/base/shared/api.js'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../../support/until.js'
import { whoami } from '../../../lib/cli/client/named-project.js'
import { Interrupted } from '../../../lib/cli/terminal/prompt.js'
import { clientOf } from '../../support/client-of.js'
import { Refusal } from '../../../lib/base/errors.js'
import { isBroken, mayRepeat } from '../../../lib/cli/client/answer.js'
import { headline, starterWords } from '../../../lib/cli/terminal/deployments.js'
import type { UploadPermit } from '../../../lib/model/access.js'
import type { ListedDeployment } from '../../../lib/model/deployment.js'

/* Servers of the same interface that are not svc: each answers one way that the specification leaves open. */

async function shown(events: AsyncIterable<RunEvent>): Promise<string[]> {
  const list: string[] = []
  for await (const event of events) list.push(event.event === 'log' ? event.text : JSON.stringify(event))
  return list
}

const ended = '{"event":"status","status":"success","duration":"1.00s","deployId":null}'
const status = 'event: status\ndata: {"status":"success","duration":"1.00s"}\n\n'
const sse = { 'content-type': 'text/event-stream' }

t.test('reads lines that are JSON strings, texts of several lines, or plain', async t => {
  const client = await clientOf(t, (_, response) => {
    const log = (data: string): string => `event: log\ndata: ${data}\n\n`
    const logs = ['"one"', '"two\\nthree\\n"', 'plain [x]', '{"data":"four","at":"then"}', '"{\\"a\\":1}"'].map(log)
    response.writeHead(200, sse).end(logs.join('') + status)
  })
  t.strictSame(await shown(followRun(client, 'dep_1', {})), [
    'one',
    'two',
    'three',
    'plain [x]',
    'four',
    '{"a":1}',
    ended
  ])
})

t.test('repeats no line of a server whose events have no ids', async t => {
  let asked = 0
  const client = await clientOf(t, (_, response) => {
    response.writeHead(200, sse)
    const log = 'event: log\ndata: "one\\ntwo"\n\n'
    if (++asked === 1) response.write(log, () => response.destroy())
    else response.end(`${log}event: log\ndata: "three"\n\n${status}`)
  })
  t.strictSame(await shown(followRun(client, 'dep_1', {})), ['one', 'two', 'three', ended])
})

t.test('reads a rollback that is answered with one JSON object', async t => {
  const answers: Array<[answer: object, expected: string[]]> = [
    [{ success: true }, ['{"event":"status","status":"success","duration":"","deployId":null}']],
    [
      { success: false, message: 'no archive' },
      ['no archive', '{"event":"status","status":"failed","duration":"","deployId":null}']
    ],
    [
      { deployment: { id: 'dep_2', status: 'success', duration: '2s', output: 'a\nb\n' } },
      ['a', 'b', '{"event":"status","status":"success","duration":"2s","deployId":"dep_2"}']
    ],
    [{ deployId: 'dep_3', status: 'running' }, ['followed dep_3', ended]],
    [{ success: true, id: 'dep_4' }, ['followed dep_4', ended]]
  ]
  for (const [answer, expected] of answers) {
    const client = await clientOf(t, ({ url, method }, response) => {
      if (method === 'POST')
        return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
      const [, id] = /^\/api\/logs\/(dep_\d)\/stream/.exec(url ?? '') ?? []
      response.writeHead(200, sse).end(`event: log\ndata: "followed ${id}"\n\n${status}`)
    })
    const run = await startRun(client, 'POST /api/deployments/:id/rollback', { id: 'dep_1' })
    t.strictSame(await shown(run.events), expected, JSON.stringify(answer))
  }
  const client = await clientOf(t, (_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"hello":1}')
  )
  await t.rejects(startRun(client, 'POST /api/deployments/:id/rollback', { id: 'dep_1' }), { code: 'not_svc' })
})

t.test('takes 404, 405 and a page for a server without the route', async t => {
  const html = { 'content-type': 'text/html' }
  const json = { 'content-type': 'application/json' }
  const answers: Array<[number, Record<string, string>, string]> = [
    [404, json, '{"error":"Not found"}'],
    [404, html, '<p>'],
    [405, json, '{"error":"Method not allowed"}'],
    [405, html, '<p>'],
    [200, html, '<html>the panel</html>'],
    [200, json, '{"success":true}'],
    [200, json, '[]'],
    [200, json, 'null']
  ]
  for (const [code, headers, body] of answers) {
    const client = await clientOf(t, (_, response) => response.writeHead(code, headers).end(body))
    t.equal(await whoami(client), null, `${code} ${body}`)
    t.equal(await checkUpload(client, { projectId: 'p', scripts: [] }), null, `${code} ${body}`)
  }
})

t.test('lists only the deployments that are asked for, also if the server lists all', async t => {
  const rows = ['a', 'b', 'a', 'a'].map((projectId, at) => ({ id: `dep_${at}`, projectId, status: 'success' }))
  const client = await clientOf(t, (_, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(rows))
  )
  const found = await listDeployments(client, { projectId: 'a', limit: 2 })
  t.strictSame(
    found.map(({ id }) => id),
    ['dep_0', 'dep_2']
  )
  t.strictSame(await listDeployments(client, { status: 'failed' }), [])
})

t.test('a command that waits says once for which deployments', async t => {
  const notes: string[] = []
  const rows = [
    { id: 'dep_held', projectId: 'proj_a', projectName: 'shop', status: 'running' },
    { id: 'dep_busy', projectId: 'proj_a', projectName: 'shop', status: 'running' }
  ]
  const waiting = [{ for: 'confirmation', projectId: 'proj_a', deployId: 'dep_held', until: null }]
  const client = {
    call: async (route: string) => (route === 'GET /api/logs' ? rows : { waiting, locks: [] })
  } as unknown as Client
  const asked = { client, projectId: 'proj_a', note: (line: string) => void notes.push(line) }
  t.equal(await sayingWait(asked, async () => 'at once'), 'at once')
  const long = () => until(() => notes.length === 2).then(() => 'late')
  t.equal(await sayingWait(asked, long), 'late')
  t.strictSame(notes, [
    `Waiting for dep_held of shop, which ${waitingRows.confirmation.words}`,
    'Waiting for dep_busy of shop, which is running'
  ])
  const broken = { ...asked, client: { call: () => Promise.reject(new Error('gone')) } as unknown as Client }
  await sayingWait(broken, () => sleep(2200))
  t.equal(notes.length, 2, 'what cannot be read is not said')
})

t.test('Ctrl-C while it waits to reconnect, or for a leader, ends with the reason of the signal', async t => {
  const noLeader = { 'content-type': 'application/json', 'retry-after': '5' }
  const waits: Array<[what: string, handle: http.RequestListener]> = [
    ['a lost stream', (_, response) => void response.writeHead(200, sse).end()],
    [
      'no leader',
      (_, response) => void response.writeHead(503, noLeader).end('{"error":"No leader","code":"no_leader"}')
    ]
  ]
  for (const [what, handle] of waits) {
    const stop = new AbortController()
    const client = await clientOf(t, (request, response) => {
      handle(request, response)
      response.on('close', () => setTimeout(() => stop.abort(new Interrupted()), 20))
    })
    await t.rejects(shown(followRun(client, 'dep_1', { signal: stop.signal })), { name: 'Interrupted' }, what)
  }
})

async function all(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const list: RunEvent[] = []
  for await (const event of events) list.push(event)
  return list
}

const log = (id: number, text: string) =>
  `event: log\nid: ${id}\ndata: ${JSON.stringify({ data: text, at: 'then' })}\n\n`

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

t.test('a first connection that fails was not lost: its reason is told at once', async t => {
  const failing = await clientOf(t, (_, response) => void response.writeHead(502).end())
  const onBroken = () => t.fail('nothing was lost')
  await t.rejects(all(followRun(failing, 'dep_1', { isFirst: true, onBroken })), { code: 'http_502' })
  let asked = 0
  const breaking = await clientOf(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (asked++ === 0) response.write(log(7, 'one'), () => response.destroy())
    else response.end(status)
  })
  t.equal((await all(followRun(breaking, 'dep_1', { isFirst: true }))).length, 2, 'a later one is tried again')
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
  const client = await clientOf(t, ({ url }, response) => {
    response.writeHead(url === '/api/health' ? 200 : 404, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error, code: 'not_found' }))
  })
  const asked = { id: 'proj_1', from: 'dep_1' }
  const plan = (): Promise<unknown> => planRun(client, 'POST /api/projects/:id/promote', asked)
  const run = (): Promise<unknown> => startRun(client, 'POST /api/projects/:id/promote', asked)
  for (const ask of [plan, run])
    await t.rejects(ask(), { code: 'server_too_old', message: 'The server is too old for promotions. Update it' })
  error = 'Deployment not found: "dep_1"'
  for (const ask of [plan, run]) await t.rejects(ask(), { code: 'not_found', message: error })
})
