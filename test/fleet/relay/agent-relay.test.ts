import t from 'tap'
import { createAgentRelay, type AgentRelayNeeds } from '../../../lib/fleet/relay/agent-relay.js'
import type { RelayedRequest } from '../../../lib/model/fleet-wire.js'
import { until } from '../../support/until.js'

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
