import t from 'tap'
import {
  type AgentRelayNeeds,
  createAgentRelay,
  createPartSender,
  readRelayedRequest
} from '../../../lib/fleet/relay/agent-relay.js'
import { relayedHeaders, type RelayedRequest, relayPartBytes } from '../../../lib/model/fleet-wire.js'
import { until } from '../../support/until.js'
import { Refusal } from '../../../lib/base/errors.js'

const asked: RelayedRequest = {
  kind: 'request',
  method: 'GET',
  path: 'logs',
  headers: {},
  caller: { name: 'admin', role: 'admin', projects: null, seesScripts: true }
}

function stage(more: Partial<AgentRelayNeeds> = {}) {
  const sent: Array<{ path: string; text: string }> = []
  const relay = createAgentRelay({
    client: {
      async json<T>({ path, body }: { path: string; body?: unknown }) {
        sent.push({ path, text: String(body) })
        return {} as T
      }
    },
    isOn: true,
    ask: async () => ({
      head: { status: 200, headers: {} },
      body: (async function* () {
        yield Buffer.from('body')
      })()
    }),
    async terminal(_, end) {
      for await (const message of end.messages()) await end.send(`{"echo":${message}}`)
      await end.send(`{"left":"${await end.left}"}`)
    },
    log: () => {},
    ...more
  })
  const begin = (request: RelayedRequest): void =>
    relay.take({ type: 'relay', id: 'rel_1', request: JSON.stringify(request) })
  const input = (number: number, text: string): void =>
    relay.take({ type: 'input', id: 'rel_1', number, bytes: Buffer.from(text).toString('base64') })
  return { sent, relay, begin, input }
}

t.test('a request is answered by the own server', async t => {
  const { sent, begin } = stage()
  begin(asked)
  await until(() => sent.length === 1)
  t.strictSame(sent, [{ path: '/api/agent/relays/rel_1?part=1&last=1', text: '{"status":200,"headers":{}}\nbody' }])
})

t.test('with --no-relay, nothing is told', async t => {
  const { sent, begin } = stage({ isOn: false })
  begin(asked)
  await until(() => sent.length === 1)
  t.match(sent[0]?.text, /"status":403.*\n.*relay_off/)
})

t.test('a terminal gets each message once, and learns how its client left', async t => {
  const { sent, begin, input } = stage()
  begin({ ...asked, kind: 'terminal' })
  input(1, '1')
  input(1, '1')
  input(2, '2')
  await until(() =>
    sent
      .map(({ text }) => text)
      .join('')
      .includes('{"echo":2}')
  )
  input(3, '{"type":"left","how":"closed"}')
  await until(() => sent.some(({ path }) => path.includes('last=1')))
  t.equal(sent.map(({ text }) => text).join(''), '{"echo":1}\n{"echo":2}\n{"left":"closed"}\n')
})

t.test('a relay that the hub ends is left, and so are all when the stream ends', async t => {
  const ended: unknown[] = []
  const { relay, begin } = stage({
    ask: (_, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          ended.push(1)
          reject(signal.reason)
        })
      })
  })
  begin(asked)
  relay.take({ type: 'input', id: 'rel_1', number: 1, bytes: '' })
  await until(() => ended.length === 1)
  await new Promise(setImmediate)
  begin(asked)
  relay.endAll()
  await until(() => ended.length === 2)
  t.equal(ended.length, 2)
})

t.test('what a terminal sends after the end of its relay is lost without an error', async t => {
  const sending: Array<Promise<void>> = []
  let left = ''
  const { sent, relay, begin } = stage({
    async terminal(_, end) {
      await end.send('first')
      left = await end.left
      sending.push(end.send('late'))
    }
  })
  begin({ ...asked, kind: 'terminal' })
  await until(() => sent.length === 1)
  relay.endAll()
  await until(() => sending.length === 1)
  await t.resolves(sending[0] as Promise<void>)
  t.equal(left, 'broken')
  t.notOk(sent.some(({ text }) => text.includes('late')))
})

const never = new AbortController().signal
type Part = { number: number; isLast: boolean; bytes: Buffer }

t.test('a short answer is one part, a long one several of the maximum size', async t => {
  const sent: Part[] = []
  const short = createPartSender(async part => void sent.push(part), never)
  await short.write(Buffer.from('head\n'))
  await short.write(Buffer.from('body'))
  await short.end()
  t.match(sent, [{ number: 1, isLast: true }])
  t.equal(String(sent[0]?.bytes), 'head\nbody')

  const parts: Part[] = []
  const long = createPartSender(async part => void parts.push(part), never)
  const bytes = Buffer.alloc(relayPartBytes * 2 + 10, 'x')
  for (let at = 0; at < bytes.length; at += 100_000) await long.write(bytes.subarray(at, at + 100_000))
  await long.end()
  t.equal(Buffer.concat(parts.map(part => part.bytes)).length, bytes.length)
  t.ok(parts.every(part => part.bytes.length <= relayPartBytes))
  t.strictSame(
    parts.map(({ number }) => number),
    parts.map((_, at) => at + 1)
  )
  t.strictSame(parts.filter(({ isLast }) => isLast).length, 1)
  t.ok(parts.at(-1)?.isLast)
})

t.test('a part is sent again after a network failure, and the answer given up if nobody waits for it', async t => {
  let failures = 1
  const sent: Part[] = []
  const sender = createPartSender(async part => {
    if (failures-- > 0) throw new Error('network')
    sent.push(part)
  }, never)
  await sender.write(Buffer.from('a'))
  await sender.end()
  t.equal(sent.map(({ bytes }) => String(bytes)).join(''), 'a')

  const unwanted = createPartSender(async () => {
    throw new Refusal('not_found', 'not_found', 'Relay not found')
  }, never)
  await unwanted.write(Buffer.from('a'))
  await t.rejects(unwanted.end(), { code: 'not_found' })
  await t.rejects(unwanted.write(Buffer.from('b')), { code: 'not_found' })
})

const caller = { name: 'admin', role: 'admin', projects: null, seesScripts: true }
const request = { kind: 'request', method: 'GET', path: 'logs?limit=5&q=a%2Fb', headers: { range: 'bytes=1-' }, caller }

t.test('reads what a hub relays', async t => {
  t.strictSame(readRelayedRequest(JSON.stringify(request)), request)
  for (const path of ['projects/a%2Fb/files', 'projects/%2e%2e%2fx', 'terminal/ws?cols=80', 'search?q=%00'])
    t.equal(readRelayedRequest(JSON.stringify({ ...request, path })).path, path)
  const limited = { ...request, caller: { ...caller, role: 'project', projects: ['proj_a'] } }
  t.strictSame(readRelayedRequest(JSON.stringify(limited)), limited)
})

t.test('only headers that change an answer reach the own server', async t => {
  const hostile = {
    authorization: 'Bearer x',
    connection: 'svc-relay-secret',
    'content-length': '100',
    cookie: 'svc_session=x',
    expect: '100-continue',
    host: 'other',
    'svc-forwarded': 'x.y',
    'svc-relay-caller': '%7B%7D',
    'Svc-Relay-Secret': 'x',
    'transfer-encoding': 'chunked',
    upgrade: 'websocket'
  }
  const headers = { ...hostile, ...Object.fromEntries(relayedHeaders.map(name => [name, 'x'])) }
  const read = readRelayedRequest(JSON.stringify({ ...request, headers }))
  t.strictSame(Object.keys(read.headers).sort(), [...relayedHeaders].sort())
})

t.test('refuses everything else', async t => {
  const cases: Record<string, object> = {
    'another kind': { kind: 'upload' },
    'a change': { method: 'POST' },
    'a path above the API': { path: '../metrics' },
    'an encoded path above the API': { path: '%2e%2e/metrics' },
    'another host': { path: 'logs\\..\\..' },
    'a fragment': { path: 'logs#x' },
    'a line break': { path: 'logs\r\nsvc-relay-caller: x' },
    'a blank': { path: 'logs HTTP/1.1' },
    'no path': { path: '' },
    'a header with a line break': { headers: { range: 'bytes=1-\r\nconnection: close' } },
    'a header that is no text': { headers: { range: ['a'] } },
    'an unknown role': { caller: { ...caller, role: 'local' } },
    'no caller': { caller: null },
    'projects that are no names': { caller: { ...caller, projects: [1] } }
  }
  for (const [what, change] of Object.entries(cases))
    t.throws(() => readRelayedRequest(JSON.stringify({ ...request, ...change })), what)
  for (const text of ['', '[]', 'null', '{}']) t.throws(() => readRelayedRequest(text), text)
})
