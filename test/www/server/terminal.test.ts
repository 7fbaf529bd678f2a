import t from 'tap'
import type { TerminalInput, TerminalMessage } from '../../../lib/model/terminal.js'
import { Refused } from '../../../www/server/client.js'
import {
  openTerminal,
  type TerminalLink,
  type TerminalLinkNeeds,
  type TerminalSocket
} from '../../../www/server/terminal.js'
import { until } from '../../support/until.js'

/** The other side of one socket. */
interface Peer {
  query: URLSearchParams
  heard: TerminalInput[]
  isClosed: boolean
  say(message: TerminalMessage): void
  /** The connection breaks. */
  drop(): void
}

interface Stage {
  link: TerminalLink
  peers: Peer[]
  /** What was written, and for each piece the call that says it was drawn. */
  text: string
  drawn: Array<() => void>
  gaps: number
}

const ready = (offset: number, fields: object = {}): TerminalMessage => ({
  type: 'ready',
  sessionId: 'term_1',
  pid: 1,
  shell: '/bin/sh',
  cwd: '/',
  projectId: null,
  cols: 80,
  rows: 24,
  offset,
  ...fields
})

function stage(
  t: { teardown(work: () => void): void },
  options: Partial<TerminalLinkNeeds> & { available?: boolean; ensureProven?: () => Promise<void> } = {}
): Stage {
  const stage = { peers: [] as Peer[], text: '', drawn: [] as Array<() => void>, gaps: 0 } as Stage
  const ask = async (): Promise<unknown> => ({ available: options.available ?? true, reason: 'It is off.' })
  stage.link = openTerminal({
    client: {
      address: path => `https://host.test/base/${path}`,
      ask: ask as TerminalLinkNeeds['client']['ask'],
      ensureProven: options.ensureProven ?? (async () => {})
    },
    projectId: null,
    size: { columns: 80, rows: 24 },
    onData: (text, drawn) => {
      stage.text += text
      stage.drawn.push(drawn)
    },
    onGap: modes => {
      stage.gaps++
      stage.text += modes
    },
    onState: () => {},
    openSocket: address => socketTo(address, stage.peers),
    ...options
  })
  t.teardown(() => stage.link.close())
  return stage
}

function socketTo(address: string, peers: Peer[]): TerminalSocket {
  const url = new URL(address)
  const socket = { readyState: 1, onopen: null, onmessage: null, onclose: null } as unknown as TerminalSocket
  const peer: Peer = {
    query: url.searchParams,
    heard: [],
    isClosed: false,
    say: message => socket.onmessage?.call(socket as never, { data: JSON.stringify(message) } as never),
    drop: () => socket.onclose?.call(socket as never, {} as never)
  }
  Object.assign(socket, {
    send: (text: string) => peer.heard.push(JSON.parse(text)),
    close: () => {
      peer.isClosed = true
    }
  })
  peer.query.set('address', `${url.protocol}//${url.host}${url.pathname}`)
  peers.push(peer)
  return socket
}

async function peer(stage: Stage, number: number): Promise<Peer> {
  await until(() => stage.peers.length > number)
  return stage.peers[number] as Peer
}

const acks = ({ heard }: Peer): number[] => heard.flatMap(message => (message.type === 'ack' ? [message.bytes] : []))

t.test('starts a session below the base with a size and a project', async t => {
  const one = stage(t, { projectId: 'proj_1', size: { columns: 100, rows: 30 } })
  const { query } = await peer(one, 0)
  t.same(Object.fromEntries(query), {
    address: 'wss://host.test/base/api/terminal/ws',
    cols: '100',
    rows: '30',
    projectId: 'proj_1'
  })
  t.equal(one.link.state, 'connecting')
})

t.test('never cuts a character of a large paste', async t => {
  for (const shift of ['', 'x']) {
    const one = stage(t)
    const first = await peer(one, 0)
    first.say(ready(0))
    const paste = `${shift}${'\u{1f680}'.repeat(70_000)}\ud83d`
    one.link.send(paste)
    const inputs = first.heard.flatMap(message => (message.type === 'input' ? [message.data] : []))
    t.ok(inputs.length > 2)
    t.ok(inputs.every(data => data.length <= 65_536))
    t.notOk(inputs.slice(0, -1).some(data => /[\ud800-\udbff]$/.test(data)))
    t.equal(inputs.join(''), paste)
  }
})

t.test('sends input in pieces, and holds input until the shell has started', async t => {
  const one = stage(t)
  const first = await peer(one, 0)
  one.link.send('early')
  first.say(ready(0))
  one.link.send('ls\r')
  one.link.send('x'.repeat(150_000))
  one.link.resize(100, 30)
  one.link.resize(100, 30)
  const inputs = first.heard.flatMap(message => (message.type === 'input' ? [message.data.length] : []))
  t.same(inputs, [5, 3, 65_536, 65_536, 18_928])
  t.same(
    first.heard.filter(({ type }) => type === 'resize'),
    [{ type: 'resize', cols: 100, rows: 30 }]
  )
})

t.test('sends a server that counts only what it takes, and continues where it stands', async t => {
  const one = stage(t)
  const first = await peer(one, 0)
  first.say(ready(0, { inputOffset: 10 }))
  one.link.send('é'.repeat(200_000))
  const positions = ({ heard }: Peer): unknown[] =>
    heard.flatMap(message => (message.type === 'input' ? [[message.at, message.data.length]] : []))
  t.same(
    positions(first),
    [
      [10, 65_536],
      [131_082, 65_536]
    ],
    '256 KiB'
  )
  first.say({ type: 'taken', bytes: 131_082 })
  t.same(positions(first).slice(2), [[262_154, 65_536]])
  first.drop()
  one.link.send('typed blindly')
  const second = await peer(one, 1)
  second.say(ready(0, { inputOffset: 262_154 }))
  t.same(
    positions(second),
    [
      [262_154, 65_536],
      [393_226, 3_392]
    ],
    'the rest, and what did not arrive'
  )
})

t.test('says that input was dropped, until the next is accepted', async t => {
  const one = stage(t)
  const first = await peer(one, 0)
  first.say(ready(0))
  first.say({ type: 'error', reason: 'input_overflow', message: '' })
  t.ok(one.link.isInputLost)
  one.link.send('x')
  t.notOk(one.link.isInputLost)
  one.link.send('x'.repeat(65 * 1024 * 1024))
  t.ok(one.link.isInputLost)
})

t.test('acknowledges bytes after they are drawn', async t => {
  const one = stage(t)
  const first = await peer(one, 0)
  first.say(ready(0))
  first.say({ type: 'data', data: '部署' })
  first.say({ type: 'data', data: 'x'.repeat(65_536) })
  t.same(acks(first), [])
  one.drawn[0]?.()
  await until(() => acks(first).length === 1)
  t.same(acks(first), [6], 'a little one after a pause')
  one.drawn[1]?.()
  t.same(acks(first), [6, 65_542], 'much of it at once')
})

t.test('continues with another socket where the last one broke', async t => {
  const one = stage(t)
  const first = await peer(one, 0)
  first.say(ready(0))
  first.say({ type: 'data', data: 'é1' })
  first.drop()
  const second = await peer(one, 1)
  t.equal(one.link.state, 'lost')
  one.link.send('nobody hears this')
  t.match(Object.fromEntries(second.query), { sessionId: 'term_1', from: '3' })
  one.link.resize(90, 20)
  one.drawn[0]?.()
  second.say(ready(3))
  t.same(acks(second), [3], 'what was drawn in between is acknowledged')
  t.match(second.heard, [{ type: 'ack' }, { type: 'resize', cols: 90, rows: 20 }], 'and the size told')
  second.say({ type: 'data', data: '2' })
  t.equal(one.text, 'é12')
  t.equal(one.gaps, 0)
  t.notOk(first.isClosed, 'no close frame, which would have ended the shell')
})

t.test('reports output that was lost in between', async t => {
  const one = stage(t)
  const first = await peer(one, 0)
  first.say(ready(0))
  first.say({ type: 'data', data: 'abc' })
  first.drop()
  const second = await peer(one, 1)
  second.say(ready(1000, { modes: '<modes>' }))
  t.equal(one.gaps, 1)
  t.equal(one.text, 'abc<modes>')
  second.say({ type: 'data', data: 'd' })
  one.drawn[1]?.()
  await until(() => acks(second).length === 2)
  t.same(acks(second), [1000, 1001])
})

t.test('pings a silent server, and abandons the socket without a close frame', async t => {
  const one = stage(t, { timing: { checkMs: 5, silenceMs: 20, answerMs: 20 } })
  const first = await peer(one, 0)
  first.say(ready(0))
  await until(() => first.heard.some(({ type }) => type === 'ping'))
  const second = await peer(one, 1)
  t.notOk(first.isClosed)
  second.say(ready(0))
  t.equal(one.link.state, 'open')
})

for (const [what, message, end] of [
  ['the shell ends', { type: 'exit', exitCode: 3, signal: null }, { kind: 'exited', exitCode: 3, signal: null }],
  [
    'the session is gone',
    { type: 'error', reason: 'session_not_found', message: 'Gone.' },
    { kind: 'closed', reason: 'session_not_found', message: 'Gone.' }
  ]
] as Array<[string, TerminalMessage, object]>) {
  t.test(`${what}: the end, and no further socket`, async t => {
    const one = stage(t)
    const first = await peer(one, 0)
    first.say(ready(0))
    first.say({ type: 'error', reason: 'invalid_message', message: 'Not an end.' })
    t.equal(one.link.state, 'open')
    first.say(message)
    first.drop()
    t.equal(one.link.state, 'ended')
    t.same(one.link.end, end)
    await new Promise(resolve => setTimeout(resolve, 20))
    t.equal(one.peers.length, 1)
  })
}

t.test('ends the shell when it is closed', async t => {
  const one = stage(t)
  const first = await peer(one, 0)
  first.say(ready(0))
  one.link.close()
  t.ok(first.isClosed)
})

t.test('shows why the server has no terminal', async t => {
  const one = stage(t, { available: false })
  ;(await peer(one, 0)).drop()
  await until(() => one.link.state === 'ended')
  t.match(one.link.end, { kind: 'closed', reason: 'refused', message: 'It is off.' })
})

t.test('ends when the server refuses the browser session', async t => {
  const refused = new Refused(403, { error: 'Not from here.' }, null)
  const one = stage(t, {
    client: {
      address: path => `https://host.test/${path}`,
      ask: () => Promise.reject(refused),
      ensureProven: async () => {}
    }
  })
  ;(await peer(one, 0)).drop()
  await until(() => one.link.state === 'ended')
  t.match(one.link.end, { kind: 'closed', reason: 'refused', message: 'Not from here.' })
})

t.test('ends when the user does not enter the token again', async t => {
  const refused = new Refused(403, { error: 'Not proven.', code: 'proof_required' }, null)
  const one = stage(t, { ensureProven: () => Promise.reject(refused) })
  ;(await peer(one, 0)).drop()
  await until(() => one.link.state === 'ended')
  t.match(one.link.end, { kind: 'closed', reason: 'refused', message: 'Not proven.' })
})

t.test('notices a proxy that blocks sockets', async t => {
  const one = stage(t)
  ;(await peer(one, 0)).drop()
  ;(await peer(one, 1)).drop()
  await until(() => one.link.isBlocked)
  t.equal(one.link.state, 'lost')
  const third = await peer(one, 2)
  third.say(ready(0))
  t.notOk(one.link.isBlocked)
  t.equal(one.link.state, 'open')
})
