import t from 'tap'
import { randomIds } from '../../../lib/base/digests.js'
import { HubRelays } from '../../../lib/fleet/relay/hub-relays.js'
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
