import t from 'tap'
import { randomIds } from '../../../lib/base/digests.js'
import { HubRelays, readNodeHead, readTerminalLine } from '../../../lib/fleet/relay/hub-relays.js'
import type { DesiredLine, RelayedRequest } from '../../../lib/model/fleet-wire.js'
import { until } from '../../support/until.js'

const request: RelayedRequest = {
  kind: 'request',
  method: 'GET',
  path: 'logs',
  headers: {},
  caller: { name: 'admin', role: 'admin', projects: null, seesScripts: true }
}
const never = new AbortController().signal
type Relay = Extract<DesiredLine, { type: 'relay' }>
type Input = Extract<DesiredLine, { type: 'input' }>

function stage(limits = {}) {
  const lines: DesiredLine[] = []
  const ending = new AbortController()
  const link = {
    ended: ending.signal,
    send: (line: DesiredLine) => (lines.push(line), 'queued' as const)
  }
  const relays = new HubRelays({
    links: { find: id => (id === 'n' ? link : null) },
    ids: randomIds,
    limits
  })
  const part = (number: number, text: string, isLast = false) => ({
    number,
    isLast,
    read: async () => Buffer.from(text)
  })
  const relay = async (): Promise<Relay> => (await until(() => lines.find(line => line.type === 'relay'))) as Relay
  return { lines, relays, part, relay, ending }
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  let text = ''
  for await (const bytes of body) text += bytes
  return text
}

const head = '{"status":200,"headers":{"content-type":"application/json"}}\n'

t.test('an answer arrives in parts; a doubled one counts once', async t => {
  const { relays, part, relay } = stage()
  const answering = relays.request('n', request, never)
  const { id, request: text } = await relay()
  t.strictSame(JSON.parse(text), request)
  await relays.take('n', id, part(1, `${head}first `))
  const { head: got, body } = await answering
  t.match(got, { status: 200, headers: { 'content-type': 'application/json; charset=utf-8' } })
  await relays.take('n', id, part(1, 'again'))
  await t.rejects(relays.take('n', id, part(3, 'gap')), { code: 'wrong_part' })
  await t.rejects(relays.take('other', id, part(2, 'x')), { code: 'not_found' })
  await relays.take('n', id, part(2, 'second', true))
  t.equal(await textOf(body), 'first second')
  await t.rejects(relays.take('n', id, part(3, 'late')), { code: 'not_found' })
})

t.test('a slow client slows the node down, and one that leaves ends the relay', async t => {
  const { lines, relays, part, relay } = stage({ roomMs: 30 })
  const leaving = new AbortController()
  const answering = relays.request('n', request, leaving.signal)
  const { id } = await relay()
  await relays.take('n', id, part(1, head))
  await answering
  await relays.take('n', id, part(2, 'a'))
  await relays.take('n', id, part(3, 'b'))
  await t.rejects(relays.take('n', id, part(4, 'c')), { code: 'relay_full' })
  leaving.abort(new Error('gone'))
  const end = (await until(() => lines.find(line => line.type === 'input'))) as Input
  t.match(end, { id, bytes: '', number: 1 })
  await t.rejects(relays.take('n', id, part(4, 'c')), { code: 'not_found' })
})

t.test('a part is read when there is a place for it, one at a time', async t => {
  const { relays, part, relay } = stage()
  const answering = relays.request('n', request, never)
  const { id } = await relay()
  await relays.take('n', id, part(1, head))
  const { body } = await answering
  await relays.take('n', id, part(2, 'a'))
  await relays.take('n', id, part(3, 'b'))
  let reads = 0
  const read = async (): Promise<Buffer> => Buffer.from(`c${++reads}`)
  const fourth = relays.take('n', id, { number: 4, isLast: true, read })
  for (let count = 0; count < 100; count++)
    await t.rejects(relays.take('n', id, { number: 4, isLast: true, read }), { code: 'relay_full' })
  t.equal(reads, 0, 'nothing is read while the client does not read')
  t.equal(await textOf(body), 'abc1')
  await fourth
  t.equal(reads, 1)
})

t.test('what waits for all clients of a node has a limit', async t => {
  const { lines, relays, part } = stage({ roomMs: 20 })
  const bodies: Array<AsyncIterable<Buffer>> = []
  const bytes = Buffer.alloc(256 * 1024)
  let taken = 0
  for (let count = 0; count < 32; count++) {
    const answering = relays.request('n', request, never)
    const { id } = await until(() => lines.filter(line => line.type === 'relay')[count] as Relay | undefined)
    await relays.take('n', id, part(1, head))
    bodies.push((await answering).body)
    for (const number of [2, 3])
      await relays.take('n', id, { number, isLast: false, read: async () => bytes }).then(
        () => taken++,
        error => t.match(error, { code: 'relay_full' })
      )
  }
  t.equal(taken, 32 + 16, 'each relay has one part, and this user 4 MiB more at this node')
  for (const each of bodies) await each[Symbol.asyncIterator]().return?.()
})

t.test('an answer stops if the node falls silent, or if it is longer than a page', async t => {
  const { relays, part, relay } = stage({ silentMs: 30 })
  const answering = relays.request('n', request, never)
  const { id } = await relay()
  await relays.take('n', id, part(1, `${head}first`))
  await t.rejects(textOf((await answering).body), { code: 'node_silent' })
  const second = stage()
  const asking = second.relays.request('n', request, never)
  const { id: endless } = await second.relay()
  await second.relays.take('n', endless, part(1, head))
  const bytes = Buffer.alloc(16 << 20)
  const flood = async (): Promise<void> => {
    for (let number = 2; ; number++)
      await second.relays.take('n', endless, { number, isLast: false, read: async () => bytes })
  }
  const flooding = flood()
  flooding.catch(() => {})
  const { body } = await asking
  let seen = 0
  const reading = (async () => {
    for await (const { length } of body) seen += length
  })()
  await t.rejects(reading, { code: 'node_answer' })
  t.equal(seen, 64 << 20)
  await t.rejects(flooding, { code: 'not_found' })
})

t.test('a malformed head is a refusal, and ends the relay', async t => {
  const { lines, relays, part, relay } = stage()
  const answering = relays.request('n', request, never)
  const { id } = await relay()
  await relays.take('n', id, part(1, '<html>\n'))
  await t.rejects(answering, { kind: 'bad_gateway', code: 'node_answer' })
  t.match(await until(() => lines.find(line => line.type === 'input')), { id, bytes: '' })
  await t.rejects(relays.take('n', id, part(2, 'x')), { code: 'not_found' })
})

t.test('a node that is away, leaves or says nothing is a refusal', async t => {
  const { relays } = stage({ answerMs: 30 })
  await t.rejects(relays.request('other', request, never), { code: 'node_away' })
  await t.rejects(relays.request('n', request, never), { code: 'node_silent' })
  const { relays: second, part: partOf, relay: relayOf, ending: end } = stage({ perNode: 1 })
  const answering = second.request('n', request, never)
  const { id } = await relayOf()
  await t.rejects(second.request('n', request, never), { code: 'too_many_relays' })
  await second.take('n', id, partOf(1, head))
  const { body } = await answering
  end.abort()
  await t.rejects(textOf(body), { code: 'node_away' })
})

t.test('messages of a terminal are numbered and signed', async t => {
  const { lines, relays, part, relay } = stage()
  const terminal = await relays.terminal('n', { ...request, kind: 'terminal' })
  const { id } = await relay()
  terminal.send('one')
  terminal.send('two')
  await until(() => lines.length === 3)
  t.match(lines.slice(1), [
    { number: 1, bytes: Buffer.from('one').toString('base64') },
    { number: 2, bytes: Buffer.from('two').toString('base64') }
  ])
  const got: string[] = []
  const reading = (async () => {
    for await (const line of terminal.lines) got.push(line)
  })()
  await relays.take('n', id, part(1, '{"a":1}\n{"b":2}\n'))
  // A node sends what is waiting in parts of a fixed size, wherever a message or a character ends.
  const bytes = Buffer.from('{"c":"é"}\n{"d":4}\n')
  await relays.take('n', id, { number: 2, isLast: false, read: async () => bytes.subarray(0, 7) })
  await relays.take('n', id, { number: 3, isLast: true, read: async () => bytes.subarray(7) })
  await reading
  t.strictSame(got, ['{"a":1}', '{"b":2}', '{"c":"é"}', '{"d":4}'])
})

t.test('a message of a terminal without an end is no message', async t => {
  const { relays, part, relay } = stage()
  const terminal = await relays.terminal('n', { ...request, kind: 'terminal' })
  const { id } = await relay()
  let longest = 0
  const reading = (async () => {
    for await (const line of terminal.lines) longest = Math.max(longest, line.length)
  })()
  for (let number = 1; number <= 20; number++)
    await relays.take('n', id, part(number, 'x'.repeat(200_000), number === 20))
  await reading
  t.ok(longest > 1_000_000 && longest < 1_500_000, `${longest}`)
})

const asked = { method: 'GET', path: 'projects/proj_a/download?path=x', headers: {} } as const
const json = { 'content-type': 'application/json' }
const headOf = (head: unknown, more: object = {}) =>
  readNodeHead(Buffer.from(`${typeof head === 'string' ? head : JSON.stringify(head)}\nbody`), { ...asked, ...more })
const file = (headers: object, more: object = {}) => headOf({ status: 200, headers }, more).head.headers

t.test('types that a page reads pass; everything else is a download', async t => {
  const passing = [
    ['application/json', 'application/json; charset=utf-8', false],
    ['Application/JSON; charset=utf-7', 'application/json; charset=utf-8', false],
    ['application/x-ndjson', 'application/x-ndjson', true],
    ['text/event-stream; x=y', 'text/event-stream; charset=utf-8', true]
  ] as const
  for (const [given, wanted, isLasting] of passing) {
    const { head, rest } = headOf({ status: 200, headers: { 'content-type': given } })
    t.match(head, { status: 200, isLasting, headers: { 'content-type': wanted, 'cache-control': 'no-store' } }, given)
    t.equal(head.headers['content-disposition'], undefined)
    t.equal(rest.toString(), 'body')
  }
  const others = ['text/html', 'image/svg+xml', 'text/xml', 'application/xhtml+xml', 'application/pdf', 'text/plain']
  for (const type of [...others, 'application/json, text/html', 'application/jsonp', '__proto__', '', undefined]) {
    const headers = file(type === undefined ? {} : { 'content-type': type })
    t.equal(headers['content-type'], 'application/octet-stream', `${type}`)
    t.equal(headers['content-disposition'], 'attachment; filename="download"', `${type}`)
  }
})

t.test('a download keeps its name, not its path', async t => {
  const names = [
    ['attachment; filename="a b.zip"', 'attachment; filename="a b.zip"'],
    ['inline; filename="a.html"', 'attachment; filename="a.html"'],
    ['attachment; filename="../../x.sh"', 'attachment; filename="x.sh"'],
    ['attachment; filename="C:\\dir\\x.exe"', 'attachment; filename="x.exe"'],
    ['attachment; filename=".."', 'attachment; filename="download"'],
    [
      "attachment; filename*=UTF-8''na%C3%AFve.zip",
      `attachment; filename="na_ve.zip"; filename*=UTF-8''na%C3%AFve.zip`
    ],
    ["attachment; filename*=UTF-8''a%0d%0aset-cookie%3a%20b", 'attachment; filename="aset-cookie: b"'],
    ['nonsense; =', 'attachment; filename="download"'],
    [`attachment; filename="${'x'.repeat(1000)}"`, `attachment; filename="${'x'.repeat(200)}"`]
  ]
  for (const [given = '', wanted] of names)
    t.equal(file({ 'content-type': 'text/html', 'content-disposition': given })['content-disposition'], wanted, given)
  const ofJson = file({ ...json, 'content-disposition': 'attachment; filename="package.json"' })
  t.match(ofJson, { 'content-disposition': 'attachment; filename="package.json"' }, 'a file with JSON stays one')
})

t.test('only headers of the list pass, in the form that they have', async t => {
  const good = {
    'accept-ranges': 'bytes',
    etag: 'W/"abc-1"',
    'last-modified': 'Thu, 26 Nov 2026 19:00:00 GMT',
    'retry-after': '5',
    'x-svc-output-from': '0',
    'x-svc-output-to': '12',
    'x-total-count': '3'
  }
  t.match(file({ ...json, ...good }), good)
  const bad = {
    'access-control-allow-origin': '*',
    'clear-site-data': '"*"',
    'content-encoding': 'gzip',
    'content-length': '1',
    'content-security-policy': "default-src *; script-src 'unsafe-inline'",
    'cross-origin-resource-policy': 'cross-origin',
    link: '</x>; rel=preload',
    location: 'https://other.example',
    refresh: '0; url=https://other.example',
    'service-worker-allowed': '/',
    'set-cookie': 'svc_session=x',
    'transfer-encoding': 'chunked',
    'www-authenticate': 'Basic',
    etag: '"a"\r\nset-cookie: b',
    'retry-after': '-1',
    'x-total-count': ['1'],
    'last-modified': 'now'
  }
  t.strictSame(Object.keys(file({ ...json, ...bad })).sort(), ['cache-control', 'content-type', 'x-accel-buffering'])
})

t.test('a head that no page of svc has is refused', async t => {
  const cases: Record<string, unknown> = {
    'no JSON': '<html>',
    'an array': '[]',
    null: 'null',
    'no status': { headers: json },
    'no headers': { status: 200 },
    'headers in a list': { status: 200, headers: [] },
    'a status as text': { status: '200', headers: json },
    'an error in HTML': { status: 404, headers: { 'content-type': 'text/html' } },
    'a part nobody asked for': { status: 206, headers: { 'content-range': 'bytes 0-1/2' } },
    'an unchanged page nobody has': { status: 304, headers: json }
  }
  const statuses = [NaN, 0, -1, 1e9, 99, 100, 101, 103, 199, 200.5, 201, 204, 299, 301, 302, 307, 308, 401, 407, 418]
  for (const status of [...statuses, 426, 451, 500, 501, 505, 511, 599, 600, 999])
    cases[`status ${status}`] = { status, headers: json }
  for (const [what, head] of Object.entries(cases))
    t.throws(() => headOf(head), { message: /^Cannot pass on the answer of the node: / }, what)
  t.throws(() => headOf({ status: 206, headers: {} }, { headers: { range: 'bytes=0-1' } }), /which part/)
  t.throws(() => headOf({ status: 200, headers: json, more: 'x'.repeat(20_000) }), /too long/)
  t.throws(() => readNodeHead(Buffer.from('{"status":200,"headers":{}}'), asked), /incomplete/)
  t.throws(() => readNodeHead(Buffer.alloc(0), asked), /incomplete/)
  t.equal(headOf({ status: 304, headers: json }, { headers: { 'if-none-match': '"a"' } }).head.status, 304)
})

t.test('only messages of a terminal pass', async t => {
  const passing = [
    { type: 'data', data: 'x' },
    { type: 'exit', exitCode: null, signal: 'SIGTERM' },
    { type: 'pong', ts: 1 },
    { type: 'error', reason: 'idle', message: 'Closed' }
  ]
  for (const message of passing) {
    const line = JSON.stringify({ ...message, html: '<script>', __proto__: 1 })
    t.strictSame(readTerminalLine(line), { message: JSON.stringify(message) })
  }
  t.strictSame(readTerminalLine('{"type":"close","code":4404,"reason":"Gone"}'), { code: 4404, reason: 'Gone' })
  t.strictSame(readTerminalLine('{"type":"refused","error":"No shell"}'), { code: 1011, reason: 'No shell' })
  const bad = ['', 'x', '[]', 'null', '1', '{"type":"data","data":1}', '{"type":"exit"}', '{"type":"html"}']
  const closes = [1005, 1006, 1015, 0, 65_536, 3000, 1e99, '1000', null].map(
    code => `{"type":"close","code":${JSON.stringify(code)},"reason":""}`
  )
  for (const line of [...bad, '{"type":"__proto__"}', '{"type":"constructor"}', ...closes])
    t.throws(() => readTerminalLine(line), { message: /^Cannot pass on/ }, line)
})
