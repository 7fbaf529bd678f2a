import t from 'tap'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TerminalMessage } from '../../../lib/model/terminal.js'
import type { Pty, PtyEnded } from '../../../lib/core/proc/pty.js'
import {
  Session,
  createSessionInput,
  defaultSessionLimits,
  type SessionLimits,
  type TerminalClient
} from '../../../lib/operate/terminal/session.js'
import { until } from '../../support/until.js'

const actor = { name: 'admin', ip: '192.0.2.1' }

/** A session with a shell that the test controls. */
function start(limits: Partial<SessionLimits> = {}) {
  let print = (_: string): void => {}
  let exit = (_: PtyEnded): void => {}
  const typed: string[] = []
  const calls: string[] = []
  const pty = {
    pid: 42,
    onData: (take: (text: string) => void) => void (print = take),
    ended: new Promise<PtyEnded>(resolve => (exit = resolve)),
    write: (text: string) => typed.push(text) < 3,
    resize: ({ cols, rows }: { cols: number; rows: number }) => void calls.push(`${cols}x${rows}`),
    pause: () => void calls.push('pause'),
    resume: () => void calls.push('resume'),
    end: async () => void calls.push('end')
  } as Pty
  const over: string[] = []
  const session = new Session({
    facts: { sessionId: 'term_a', shell: '/bin/sh', cwd: '/', projectId: null },
    pty,
    size: { cols: 80, rows: 24 },
    limits: { ...defaultSessionLimits, ...limits },
    now: () => 7,
    onOver: ({ reason }) => void over.push(reason)
  })
  t.teardown(() => session.end('stopping'))
  return { session, over, typed, calls, print: (text: string) => print(text), exit: (how: PtyEnded) => exit(how) }
}

function client() {
  const heard: TerminalMessage[] = []
  const ends: number[] = []
  const it: TerminalClient = {
    send: async message => void heard.push(message),
    end: code => void ends.push(code)
  }
  const kinds = (): string[] => heard.map(({ type }) => type)
  return { it, heard, kinds, ends }
}

t.test('sends a client what was printed before it connected, and takes its input', async t => {
  const { session, print, typed } = start()
  print('early')
  const one = client()
  session.attach(one.it, { actor })
  await until(() => one.heard.length === 2)
  t.match(one.heard, [
    { type: 'ready', sessionId: 'term_a', pid: 42, cols: 80, rows: 24, offset: 0 },
    { type: 'data', data: 'early' }
  ])
  session.take(one.it, { type: 'input', data: 'ls' } as never)
  t.same(typed, ['ls'])
  session.take(one.it, { type: 'ping' } as never)
  await until(() => one.kinds().includes('pong'))
  t.match(one.heard.at(-1), { type: 'pong', ts: 7 })
})

t.test('joins characters that a client cut between two inputs', async t => {
  const { session, typed } = start()
  const one = client()
  session.attach(one.it, { actor })
  for (const data of ['a\ud83d', '\ude80b\ud83d', '\ude80']) session.take(one.it, { type: 'input', data } as never)
  t.same(typed, ['a', '\u{1f680}b', '\u{1f680}'])
})

t.test('skips input that it has, refuses a gap, and tells what is taken only to a client that counts', async t => {
  const { session, typed } = start()
  const one = client()
  session.attach(one.it, { actor })
  for (const [data, at] of [
    ['aé', 0],
    ['éb', 1],
    ['z', 9]
  ] as const)
    session.take(one.it, { type: 'input', data, at })
  t.same(typed, ['aé', 'b'])
  t.match(one.heard.at(-1), { type: 'error', reason: 'invalid_message' })
  const two = client()
  session.attach(two.it, { actor })
  t.match(two.heard[0], { type: 'ready', inputOffset: 4 })
})

t.test('replaces the first client by a second one and then ignores the first', async t => {
  const { session, typed } = start()
  const [one, two] = [client(), client()]
  session.attach(one.it, { actor })
  session.attach(two.it, { actor })
  t.same(one.ends, [4409])
  session.take(one.it, { type: 'input', data: 'x' } as never)
  session.detach(one.it, 'closed')
  t.same(typed, [])
  session.take(two.it, { type: 'input', data: 'y' } as never)
  t.same(typed, ['y'])
})

t.test('sends the exit of the shell as the last message, also to a client that returns', async t => {
  const { session, print, exit, over } = start()
  const one = client()
  session.attach(one.it, { actor })
  session.detach(one.it, 'broken')
  print('last words')
  exit({ exitCode: 3, signal: null } as unknown as PtyEnded)
  await sleep(10)
  t.notOk(session.isRunning)
  t.same(over, [], 'no client has seen it yet')
  const two = client()
  session.attach(two.it, { actor })
  await until(() => over.length > 0)
  t.same(two.kinds(), ['ready', 'data', 'exit'])
  t.same(over, ['exited'])
  t.same(two.ends, [1000])
})

t.test('ends once, for the first reason', async t => {
  const lost = start({ aloneMs: 20 })
  const one = client()
  lost.session.attach(one.it, { actor })
  lost.session.detach(one.it, 'broken')
  await until(() => lost.over.length > 0)
  await lost.session.end('stopping')
  t.same(lost.over, ['lost'])
  const idle = start({ idleMs: 20 })
  const two = client()
  idle.session.attach(two.it, { actor })
  await until(() => idle.over.length > 0)
  t.same(idle.over, ['idle'])
  t.same(two.ends, [4408])
})

t.test('pauses the shell while too much output is unacknowledged', async t => {
  const { session, print, calls } = start({ maxUnacknowledgedBytes: 10 } as never)
  const one = client()
  session.attach(one.it, { actor })
  for (let n = 0; n < 200 && !calls.includes('pause'); n++) {
    print('x'.repeat(64 * 1024))
    await sleep(1)
  }
  t.ok(calls.includes('pause'))
})

/** An input whose terminal accepts what it was given when `accept` is called, and at most `limit` pieces. */
function startInput(limit = Infinity) {
  const typed: string[] = []
  const waiting: Array<() => void> = []
  const input = createSessionInput({
    write(text, onTaken = () => {}) {
      if (typed.length === limit) return false
      typed.push(text)
      waiting.push(onTaken)
      return true
    }
  })
  let calls = 0
  const type = (data: string, at?: number): string =>
    input.type({ type: 'input', data, ...(at === undefined ? {} : { at }) }, () => calls++)
  return { input, typed, type, accept: () => waiting.shift()?.(), calls: () => calls }
}

t.test('joins characters that were cut between two inputs', async t => {
  const { type, typed, input } = startInput()
  for (const data of ['a\ud83d', '\ude80b\ud83d', '\ude80']) type(data)
  t.same(typed, ['a', '\u{1f680}b', '\u{1f680}'])
  t.equal(input.received, 4 + 7 + 3, 'as each message alone has them')
})

t.test('tells a client that counts what was accepted', async t => {
  const { input, type, accept, calls } = startInput()
  type('é', 0)
  type('b', 2)
  t.notOk(input.isTakenDue)
  accept()
  t.ok(input.isTakenDue)
  t.equal(input.tell(), 2)
  t.notOk(input.isTakenDue)
  accept()
  t.equal(input.tell(), 3)
  t.equal(calls(), 2)
  input.attach()
  type('c')
  accept()
  t.notOk(input.isTakenDue, 'another client, which does not count')
})

t.test('skips what it has, and refuses a gap and what nobody reads', async t => {
  const { input, type, typed } = startInput(2)
  t.same(
    [type('ab', 0), type('ab', 0), type('bc', 1), type('e', 4), type('d', 3)],
    ['typed', 'typed', 'typed', 'gap', 'overflow']
  )
  t.same(typed, ['ab', 'c'])
  t.equal(input.received, 3)
})
