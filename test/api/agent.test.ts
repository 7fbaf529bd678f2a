import t from 'tap'
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { enrolledAgent, FakeAgent } from '../support/fake-agent.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { ana } from '../support/fleet-stage.js'
import { startServer } from '../support/server.js'
import { apiRoutes } from '../../lib/api/routes.js'
import type { DesiredLine } from '../../lib/model/fleet-wire.js'
import { startFleet } from '../support/fleet-on-server.js'
import { createLongRandom } from '../support/random.js'
import { firstSeed } from '../support/thorough.js'
import { until } from '../support/until.js'
import { connectTerminal } from '../support/web-terminal.js'

async function openHub(t: Parameters<typeof startServer>[0]) {
  const stage = await startServer(t)
  return { stage, hub: await stage.server.services.fleet.hub() }
}

t.test('enrolls an agent, which then signs its requests', async t => {
  const { stage, hub } = await openHub(t)
  const { token } = await hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana)
  const agent = new FakeAgent(stage.url)
  t.match(await agent.enroll(token, 'plant-a'), { status: 200, json: { success: true, name: 'plant-a' } })
  const other = new FakeAgent(stage.url)
  t.match((await other.enroll(token)).json, { code: 'enrollment_invalid' }, 'another machine cannot use it again')
  agent.nodeId = hub.nodes.get('plant-a').id
  t.match((await agent.report()).json, { code: 'session_unknown' })
  await agent.begin()
  t.match((await agent.report()).json, { success: true })
  t.equal((await agent.report()).status, 200)
  t.match(hub.nodes.get('plant-a'), { version: '2.0.0' })
})

t.test('refuses what is not signed, or was sent before', async t => {
  const { stage, hub } = await openHub(t)
  const agent = await enrolledAgent({ url: stage.url, hub })
  const report = { version: '2.0.0', freeBytes: null, answers: [], placements: [] }
  const send = (forged: Parameters<FakeAgent['request']>[3]) =>
    agent.request('POST', '/api/agent/reports', report, forged)
  t.match(await send({ counter: 500 }), { status: 200 })
  t.match(await send({ counter: 500 }), { status: 401, json: { code: 'request_repeated' } })
  t.match(await send({ bodySha256: 'a'.repeat(64) }), { status: 400, json: { code: 'wrong_digest' } })
  t.match(await send({ headers: { 'svc-content-sha256': 'a'.repeat(64) } }), { json: { code: 'wrong_signature' } })
  t.match(await send({ authorization: 'Bearer x' }), { status: 401, json: { code: 'unauthorized' } })
  t.match(await agent.request('POST', '/api/agent/reports', { ...report, version: 1 }), {
    status: 400,
    json: { code: 'invalid_field' }
  })
  const large = { ...report, version: 'x'.repeat(20_000) }
  t.match(await agent.request('POST', '/api/agent/reports', large), { status: 413, json: { code: 'too_large' } })
  await hub.nodes.forget('plant-a', ana)
  t.match((await agent.report()).json, { code: 'node_unknown' })
})

t.test('streams the orders of a node, at once and when they change', async t => {
  const { stage, hub } = await openHub(t)
  const project = await stage.createProject('shop')
  const agent = await enrolledAgent({ url: stage.url, hub })
  await hub.placements.change(project.id, { add: [{ node: 'plant-a' }], remove: [] }, ana)
  const first = await agent.follow()
  t.match(await first.next(), { type: 'welcome', heartbeatMs: 15_000, hubs: [] })
  t.ok(hub.nodes.get('plant-a').isConnected)
  const id = await beginRollout({ hub }, { pause: 'approve' }, project.id)
  t.match(await first.next(), { type: 'order', rolloutId: id, action: 'prepare', attempt: 1 })
  await agent.begin()
  const second = await agent.follow()
  t.match(await second.next(), { type: 'welcome' })
  t.match(await second.next(), { type: 'order', action: 'prepare', attempt: 1 }, 'a lost order is repeated')
  t.equal(await first.next(), null, 'the earlier stream has ended')
  const live = { projectId: 'proj_gone', liveDeployId: null, liveTree: null, isDrifted: false }
  await agent.report({ placements: [live] })
  t.match(await second.next(), { type: 'unplaced', projectId: 'proj_gone' })
  await hub.rollouts.halt(id, null, ana)
  await hub.placements.change(project.id, { add: [], remove: ['plant-a'] }, ana)
  t.match(await second.next(), { type: 'unplaced', projectId: project.id })
  await hub.nodes.forget('plant-a', ana)
  t.equal(await second.next(), null)
})

t.test('continues after a restart of the hub', async t => {
  const { stage, hub } = await openHub(t)
  const project = await stage.createProject('shop')
  const agent = await enrolledAgent({ url: stage.url, hub })
  await hub.placements.change(project.id, { add: [{ node: 'plant-a' }], remove: [] }, ana)
  const id = await beginRollout({ hub }, {}, project.id)
  const before = await agent.follow()
  await before.next()
  await stage.restart()
  t.ok(stage.server.services.fleet.running(), 'a server with nodes loads its fleet')
  agent.url = stage.url
  t.match((await agent.report()).json, { code: 'session_unknown' })
  await agent.begin()
  t.match((await agent.report()).json, { success: true })
  const after = await agent.follow()
  t.match(await after.next(), { type: 'welcome' })
  t.match(await after.next(), { type: 'order', action: 'prepare' })
  t.match(stage.server.services.fleet.running()?.rollouts.get(id), { state: 'preparing' })
  // Its first write since the start is when nodes were heard of: the directory must still exist.
  await stage.server.stop({ wait: true })
})

t.test('gives a node the release and its archive, whole and in parts', async t => {
  const { stage, hub } = await openHub(t)
  const project = await stage.createProject('shop')
  const agent = await enrolledAgent({ url: stage.url, hub })
  const bytes = Buffer.from('the bytes of an archive')
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  writeFileSync(join(stage.home.deployments, 'dep_a.zip'), bytes)
  const blob = (headers: Record<string, string> = {}) =>
    agent.request('GET', `/api/agent/blobs/${sha256}`, undefined, { headers })
  await hub.placements.change(project.id, { add: [{ node: 'plant-a' }], remove: [] }, ana)
  t.match(await blob(), { status: 404 })
  await beginRollout({ hub }, {}, project.id, { archiveSha256: sha256, archiveBytes: bytes.length })
  t.match(await blob(), { status: 200, body: bytes })
  t.match(await blob({ range: 'bytes=4-8' }), { status: 206, body: bytes.subarray(4, 9) })
  const ranges = (list: unknown[]) => agent.request('POST', `/api/agent/blobs/${sha256}/ranges`, { ranges: list })
  t.match(await ranges([0, 3, 4, 5, 17, 5]), {
    status: 200,
    body: Buffer.from('thebyteschive'.replace('chive', bytes.subarray(17, 22).toString()))
  })
  for (const wrong of [[0], [0, 0], [4, 5, 0, 3], [0, 3, 2, 3], [0, 3, 20, 9], ['a', 1]]) {
    t.match(await ranges(wrong), { status: 400, json: { field: /^ranges/ } }, JSON.stringify(wrong))
  }
  const release = await agent.request('GET', '/api/agent/releases/dep_a')
  t.match(release, { status: 200, json: { projectId: project.id, deployPath: project.deployPath } })
  t.match(release.headers, { 'svc-signature': /^[A-Za-z0-9+/]{86}==$/ })
})

t.test('only marked rows are relayed, by the rules of the hub', async t => {
  const { stage, shop } = await startFleet(t, ['plant'])
  const at = '/api/nodes/plant/at'
  for (const path of ['settings', 'tokens', 'backup', 'agent/desired', 'nodes', 'nothing'])
    t.match(await stage.client.get(`${at}/${path}`), { status: 404, body: { code: 'not_relayed' } }, path)
  const other = await stage.createProject('other')
  t.match(await stage.as(other.token).get(`${at}/logs`), { status: 404 }, 'a node without its project')
  t.match(await stage.as(shop.token).get(`${at}/system/resources`), { status: 403 })
  t.match(await stage.as(null).get(`${at}/logs`), { status: 401 })
  const { ticket } = (await stage.client.post('/api/tickets', { purpose: 'download' })).body as { ticket: string }
  t.match(await stage.as(null).get(`${at}/logs?ticket=${ticket}`), { status: 401 }, 'a ticket is for downloads')
})

/** Sends a path as it is: clients of URLs resolve "..", and "%2e%2e". */
async function getRaw(url: string, path: string, token: string) {
  const { hostname, port } = new URL(url)
  const sent = request({ hostname, port, path, headers: { authorization: `Bearer ${token}` } }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: answer.statusCode, body: await json(answer) }
}

t.test('no row is reached that is not relayed, however its path is written', async t => {
  const { stage, shop } = await startFleet(t, ['plant'])
  const at = '/api/nodes/plant/at'
  const get = (path: string) => getRaw(stage.url, path, stage.server.adminToken.current())
  const rows = apiRoutes(stage.server.services.api).filter(
    ({ method, path }) => method === 'GET' && /^\/api\//.test(path)
  )
  for (const { path, isRelayed } of rows) {
    if (isRelayed) continue
    const below = path.slice('/api/'.length).replace(/[:*]\w+/g, 'x')
    t.match(await get(`${at}/${below}`), { status: 404, body: { code: 'not_relayed' } }, path)
  }
  const unreadable = [
    'projects/%00',
    '%2e%2e/settings',
    '..%2Fsettings/%2e%2e',
    'projects/%2E%2E/settings',
    'projects/%ff',
    'projects/../settings'
  ]
  for (const path of unreadable)
    t.match(await get(`${at}/${path}`), { status: 400, body: { code: 'invalid_path' } }, path)
  // A slash in a segment, an escape that is escaped again, and empty segments are no way to another row.
  const others = [
    `projects%2F${shop.id}`,
    `projects%2F${shop.id}%2Ffiles`,
    '..%2Fsettings',
    '%252e%252e/settings',
    'projects%252Fx',
    '/settings',
    '',
    'settings%20',
    'projects//files'
  ]
  for (const path of others) t.match(await get(`${at}/${path}`), { status: 404, body: { code: 'not_relayed' } }, path)
  t.match(
    await get('/api/nodes/plant%2Fat%2Fprojects/at/settings'),
    { status: 404, body: { code: 'not_relayed' } },
    'the name of a node does not begin the path'
  )
  t.match(await get('/api/nodes/plant%2Fat%2Fsettings/at/projects'), {
    status: 404,
    body: { code: 'not_found' }
  })
})

type Relay = Extract<DesiredLine, { type: 'relay' | 'input' }>

/** A taken node: it has the key of a real one. `answer` gets each relayed line. */
async function startHostile(t: Parameters<typeof startFleet>[0], answer: (line: Relay, agent: FakeAgent) => unknown) {
  const { stage, hub, shop } = await startFleet(t)
  const agent = await enrolledAgent({ url: stage.url, hub }, 'evil')
  await stage.client.patch(`/api/projects/${shop.id}/placements`, { add: [{ node: 'evil' }] })
  const stream = await agent.follow()
  t.teardown(() => stream.close())
  const lines: Relay[] = []
  const live = async (): Promise<void> => {
    for (let line: DesiredLine | null; (line = await stream.next()) !== null; ) {
      if (line.type !== 'relay' && line.type !== 'input') continue
      lines.push(line)
      void Promise.resolve(answer(line, agent)).catch(() => {})
    }
  }
  void live()
  const admin = { authorization: `Bearer ${stage.server.adminToken.current()}` }
  const at = `${stage.url}/api/nodes/evil/at`
  return { stage, shop, agent, lines, admin, at }
}

/** Sends a request; resolves when the head of the answer is here. */
async function ask(url: string, headers: OutgoingHttpHeaders, method = 'GET') {
  const sent = request(url, { method, headers, agent: false }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  answer.on('error', () => {})
  sent.on('error', () => {})
  return {
    status: answer.statusCode as number,
    headers: answer.headers,
    leave: () => void sent.destroy(),
    /** Resolves when some of the body has arrived, or nothing more can. */
    begun: () => new Promise<void>(resolve => void answer.once('data', resolve).once('close', resolve))
  }
}

const passing = new Set([
  'accept-ranges',
  'cache-control',
  'connection',
  'content-disposition',
  'content-length',
  'content-range',
  'content-security-policy',
  'content-type',
  'cross-origin-resource-policy',
  'date',
  'etag',
  'keep-alive',
  'last-modified',
  'retry-after',
  'transfer-encoding',
  'vary',
  'x-accel-buffering',
  'x-content-type-options',
  'x-total-count'
])

t.test('a hostile node reaches a browser with nothing but what a page reads', async t => {
  const random = createLongRandom(23 + firstSeed)
  const evil = '<script>alert(1)</script>'
  const statuses = [
    200,
    200,
    200,
    200,
    206,
    304,
    404,
    503,
    100,
    101,
    204,
    302,
    401,
    418,
    500,
    599,
    0,
    -1,
    2e9,
    '200',
    null
  ]
  const types = [
    'application/json',
    'text/event-stream',
    'application/x-ndjson',
    'text/html',
    'image/svg+xml',
    '',
    7,
    null
  ]
  const values = [
    '*',
    '"a"',
    'a\r\nset-cookie: b',
    'https://other.example',
    'x'.repeat(5000),
    '',
    1,
    null,
    [],
    {},
    '\u0000',
    '☃'
  ]
  const names = [
    'set-cookie',
    'location',
    'content-encoding',
    'content-length',
    'transfer-encoding',
    'connection',
    'link'
  ]
  const more = [
    'refresh',
    'content-security-policy',
    'access-control-allow-origin',
    'etag',
    'content-disposition',
    'a b',
    ''
  ]
  const headOf = (): string => {
    const headers: Record<string, unknown> = { 'content-type': random.oneOf(types), 'content-range': 'bytes 0-1/9' }
    for (const name of random.some(5, () => random.oneOf([...names, ...more]))) headers[name] = random.oneOf(values)
    const head = JSON.stringify({ status: random.oneOf(statuses), headers })
    return random.oneOf([
      ...Array<string>(12).fill(head),
      '',
      '[]',
      '{',
      '\u0000',
      `{"status":200,"headers":"${'x'.repeat(30_000)}"}`
    ])
  }
  const { at, admin, shop, stage } = await startHostile(t, async (line, agent) => {
    if (line.type !== 'relay') return
    const body = random.oneOf([evil, '', '{}', '\n\n', `data: ${evil}\n\n`])
    const first = Buffer.from(`${headOf()}${random.oneOf(['\n', '\n', '\n', ''])}${body}`)
    const isLast = random.below(3) > 0
    await agent.part(line.id, first, { isLast })
    if (isLast) return
    await agent.part(line.id, Buffer.from(evil), { number: random.oneOf([1, 2, 2, 2, 3]), isLast: false })
    await agent.part(line.id, Buffer.alloc(0), { number: 3 })
  })
  const seen = new Map<number, number>()
  for (let round = 0; round < 120; round++) {
    const path = random.oneOf(['projects', `projects/${shop.id}/download?path=a.html`, 'logs', 'overview'])
    const asked = random.oneOf([{}, {}, { range: 'bytes=0-1' }, { 'if-none-match': '"a"' }])
    const answer = await ask(`${at}/${path}`, { ...admin, ...asked }, random.oneOf(['GET', 'GET', 'GET', 'HEAD']))
    const { status, headers } = answer
    if (round % 3 === 0) await answer.begun()
    answer.leave()
    seen.set(status, (seen.get(status) ?? 0) + 1)
    const what = `round ${round}: ${status} ${JSON.stringify(headers)}`
    if (![200, 206, 304, 404, 502, 503].includes(status)) t.fail(what)
    if (Object.keys(headers).some(name => !passing.has(name))) t.fail(what)
    if (headers['content-security-policy'] !== "default-src 'none'; sandbox") t.fail(what)
    if (headers['x-content-type-options'] !== 'nosniff') t.fail(what)
    if (status === 304 && headers['content-type'] === undefined) continue
    const type = headers['content-type'] ?? ''
    const isFile = type === 'application/octet-stream' && /^attachment; /.test(headers['content-disposition'] ?? '')
    if (!isFile && !/^(?:application\/(?:json; charset=utf-8|x-ndjson)|text\/event-stream; charset=utf-8)$/.test(type))
      t.fail(what)
  }
  for (const status of [200, 502]) t.ok((seen.get(status) ?? 0) > 0, `there were answers ${status}`)
  t.equal(((await stage.client.get('/api/health')).body as { status: string }).status, 'ok')
})

t.test('a terminal of a hostile node says only what a terminal says', async t => {
  const lines = [
    '{"type":"data","data":"a","html":"<script>"}',
    '{"type":"close","code":1005,"reason":"x"}',
    '{"type":"close","code":"NaN"}',
    '{"type":"refused"}',
    '<script>',
    '{"type":"data","data":{}}',
    '[]'
  ]
  let said = 0
  const { stage } = await startHostile(t, async ({ id, type }, agent) => {
    if (type !== 'relay') return
    await agent.part(id, Buffer.from(`{"type":"pong","ts":1}\n${lines[said++]}\n`), { isLast: false })
  })
  for (const line of lines) {
    const terminal = await connectTerminal(stage, { path: '/api/nodes/evil/terminal' })
    t.equal(terminal.status, 101)
    t.equal(await terminal.next(), 'text {"type":"pong","ts":1}')
    const next = await terminal.next()
    if (line.includes('"data":"a"')) t.equal(next, 'text {"type":"data","data":"a"}', line)
    else t.equal(next, 'close 1011', line)
    terminal.socket.destroy()
  }
})

t.test('an answer without end ends with its reader', async t => {
  const { at, admin, agent, lines } = await startHostile(t, () => {})
  const asking = ask(`${at}/projects`, admin)
  const { id } = await until(() => lines.find(line => line.type === 'relay'))
  await agent.part(id, Buffer.from('{"status":200,"headers":{"content-type":"application/json"}}\n'), { isLast: false })
  const answer = await asking
  const part = Buffer.alloc(256 * 1024, ' ')
  for (const number of [2, 3, 4]) t.equal((await agent.part(id, part, { number, isLast: false })).status, 200)
  t.equal((await agent.part(id, Buffer.alloc(300_000), { number: 5, isLast: false })).status, 413)
  answer.leave()
  await until(() => lines.find(line => line.type === 'input' && line.id === id && line.bytes === ''))
  t.equal((await agent.part(id, part, { number: 5, isLast: false })).status, 404, 'nobody waits for it any more')
})

t.test('a node that never answers takes places only from its own users, and gives them back', async t => {
  const { at, admin, lines, stage, agent } = await startHostile(t, () => {})
  const leave: Array<() => void> = []
  const hang = (headers: OutgoingHttpHeaders): void => {
    const sent = request(`${at}/projects`, { headers, agent: false })
      .on('error', () => {})
      .end()
    leave.push(() => void sent.destroy())
  }
  for (let count = 0; count < 32; count++) hang(admin)
  await until(() => lines.length === 32)
  const over = await stage.client.get('/api/nodes/evil/at/projects')
  t.match(over, { status: 503, body: { code: 'too_many_relays', error: /to this node for you/ } })
  t.match(over.headers, { 'retry-after': '5' })
  const made = await stage.client.post('/api/tokens', { name: 'other', role: 'viewer' })
  const asking = stage.as((made.body as { token: string }).token).get('/api/nodes/evil/at/projects')
  const last = await until(() => lines[32])
  await agent.part(last.id, Buffer.from('{"status":200,"headers":{"content-type":"application/json"}}\n[]'))
  t.match(await asking, { status: 200, body: [] }, 'another user has places of his own')
  for (const each of leave) each()
  await until(() => lines.filter(line => line.type === 'input').length >= 32)
  // HEAD, whose body nobody reads, keeps no place either.
  for (let count = 0; count < 80; count++) {
    const before = lines.length
    const head = ask(`${at}/projects`, admin, 'HEAD')
    const line = await until(() => lines.slice(before).find(({ type }) => type === 'relay'))
    await agent.part(line.id, Buffer.from('{"status":200,"headers":{"content-type":"application/json"}}\n'))
    if ((await head).status !== 200) t.fail(`HEAD ${count}`)
  }
})
