import t from 'tap'
import { randomIds } from '../../../lib/base/ids.js'
import { createHubRelays } from '../../../lib/fleet/relay/hub-relays.js'
import { inputText, relayText, type DesiredLine, type RelayedRequest } from '../../../lib/model/fleet-wire.js'
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
    session: 's',
    ended: ending.signal,
    send: (line: DesiredLine) => (lines.push(line), 'queued' as const)
  }
  const relays = createHubRelays({
    links: { find: id => (id === 'n' ? link : null) },
    key: { current: async () => ({ sign: text => `signed ${text}` }) },
    ids: randomIds,
    limits
  })
  const part = (number: number, text: string, isLast = false) => ({ number, isLast, bytes: Buffer.from(text) })
  const relay = async (): Promise<Relay> => (await until(() => lines.find(line => line.type === 'relay'))) as Relay
  return { lines, relays, part, relay, ending }
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  let text = ''
  for await (const bytes of body) text += bytes
  return text
}

const head = '{"status":200,"headers":{"content-type":"text/plain"}}\n'

t.test('an answer arrives in parts; a doubled one counts once', async t => {
  const { relays, part, relay } = stage()
  const answering = relays.request('n', request, never)
  const { id, request: text, signature } = await relay()
  t.equal(signature, `signed ${relayText('n', 's', { id, request: text })}`)
  t.strictSame(JSON.parse(text), request)
  await relays.take('n', id, part(1, `${head}first `))
  const { head: got, body } = await answering
  t.strictSame(got, { status: 200, headers: { 'content-type': 'text/plain' } })
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
  t.match(end, { id, bytes: '', number: 1, signature: `signed ${inputText('n', 's', { id, number: 1, bytes: '' })}` })
  await t.rejects(relays.take('n', id, part(4, 'c')), { code: 'not_found' })
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
  await relays.take('n', id, part(1, '{"a":1}\n{"b":2}\n', true))
  const got: string[] = []
  for await (const line of terminal.lines) got.push(line)
  t.strictSame(got, ['{"a":1}', '{"b":2}'])
})
