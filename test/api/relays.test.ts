import { once } from 'node:events'
import { request, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { json } from 'node:stream/consumers'
import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import type { DesiredLine } from '../../lib/model/fleet-wire.js'
import { enrolledAgent, type FakeAgent } from '../support/fake-agent.js'
import { startFleet } from '../support/fleet-on-server.js'
import { createLongRandom } from '../support/random.js'
import { firstSeed } from '../support/thorough.js'
import { until } from '../support/until.js'
import { connectTerminal } from '../support/web-terminal.js'

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
