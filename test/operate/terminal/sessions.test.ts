import t from 'tap'
import type { Test } from 'tap'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { randomIds } from '../../../lib/base/digests.js'
import { systemClock } from '../../../lib/base/clock.js'
import type { AuditEvent } from '../../../lib/model/audit.js'
import type { TerminalMessage } from '../../../lib/model/terminal.js'
import { createPtyLoader } from '../../../lib/core/proc/pty.js'
import {
  type Connected,
  Terminals,
  findDirectory,
  findShell,
  type Opening,
  shellEnvironment,
  type TerminalLimits
} from '../../../lib/operate/terminal/sessions.js'
import type { TerminalClient } from '../../../lib/operate/terminal/session.js'
import { isRunning } from '../../support/processes.js'
import { noPty as skip } from '../../support/web-terminal.js'
import { until } from '../../support/until.js'

const actor = { name: 'admin', ip: '192.0.2.1' }

interface Stage {
  terminals: Terminals
  audited: AuditEvent[]
  settings: { enabled: boolean }
}

function createStage(t: Test, limits: Partial<TerminalLimits> = {}, isOffered = true): Stage {
  const audited: AuditEvent[] = []
  const settings = { enabled: true }
  const terminals = new Terminals({
    isOffered,
    isEnabled: () => settings.enabled,
    loadPty: createPtyLoader(),
    environment: { PATH: process.env['PATH'], HOME: '/', SHELL: '/bin/sh', PS1: '$ ' },
    audit: async event => void audited.push(event),
    clock: systemClock,
    ids: randomIds,
    limits
  })
  t.teardown(() => terminals.stop())
  return { terminals, audited, settings }
}

interface Viewer {
  client: TerminalClient
  connected: Connected | undefined
  /** The code with which the client was disconnected. */
  code(): number | undefined
  text(): string
  /** Returns the next message that is not data. */
  hears(): Promise<Exclude<TerminalMessage, { type: 'data' }>>
  sees(pattern: RegExp): Promise<void>
  position(): number
}

async function connect({ terminals }: Stage, opening: Partial<Opening> = {}): Promise<Viewer> {
  const heard: Array<Exclude<TerminalMessage, { type: 'data' }>> = []
  let text = ''
  let code: number | undefined
  let wake = (): void => {}
  const change = (): Promise<void> => new Promise(resolve => (wake = resolve))
  const client: TerminalClient = {
    async send(message) {
      if (message.type === 'data') text += message.data
      else heard.push(message)
      wake()
    },
    end(given) {
      code ??= given
      wake()
    }
  }
  const connected = await terminals.connect(client, { actor, ...opening })
  return {
    client,
    connected,
    code: () => code,
    text: () => text,
    position: () => Buffer.byteLength(text),
    async hears() {
      while (heard.length === 0) await change()
      return heard.shift() as Exclude<TerminalMessage, { type: 'data' }>
    },
    async sees(pattern) {
      while (!pattern.test(text)) await change()
    }
  }
}

async function readyOf(viewer: Viewer): Promise<Extract<TerminalMessage, { type: 'ready' }>> {
  const ready = await viewer.hears()
  if (ready.type !== 'ready') throw new Error(`not ready, but ${JSON.stringify(ready)}`)
  return ready
}

t.test('reports whether a terminal is available', async t => {
  const off = createStage(t, {}, false)
  t.match(await off.terminals.available(), { available: false, reason: /--no-terminal/ })
  await t.rejects(off.terminals.check(), { kind: 'forbidden', code: 'terminal_disabled' })
  const stage = createStage(t)
  stage.settings.enabled = false
  t.match(await stage.terminals.available(), { available: false, reason: /terminal_enabled/ })
  const none = new Terminals({
    isOffered: true,
    isEnabled: () => true,
    loadPty: createPtyLoader(() => Promise.reject(new Error('none'))),
    environment: {},
    audit: async () => {},
    clock: systemClock,
    ids: randomIds
  })
  t.match(await none.available(), { available: false, reason: /npm run install/ })
  await t.rejects(none.check(), { kind: 'unsupported', code: 'terminal_unavailable' })
})

t.test('ends a session that nobody uses', { skip }, async t => {
  const stage = createStage(t, { idleMs: 300 })
  const viewer = await connect(stage)
  const { pid } = await readyOf(viewer)
  t.match(await viewer.hears(), { type: 'error', reason: 'idle' })
  t.equal(viewer.code(), 4408)
  await until(() => !isRunning(pid))
  t.match(stage.audited, [
    { action: 'terminal.open', actor },
    { action: 'terminal.close', detail: /no input or output/ }
  ])
})

t.test('keeps a session that has input or output', { skip }, async t => {
  const stage = createStage(t, { idleMs: 2500 })
  const unused = await connect(stage)
  const used = await connect(stage)
  await readyOf(unused)
  await readyOf(used)
  const typing = setInterval(() => used.connected?.take({ type: 'input', data: ' ' }), 50)
  t.match(await unused.hears(), { type: 'error', reason: 'idle' })
  t.equal(used.code(), undefined)
  clearInterval(typing)
})

t.test('keeps the shell for a limited time after a lost connection', { skip }, async t => {
  const stage = createStage(t, { aloneMs: 200 })
  const viewer = await connect(stage)
  const { pid, sessionId } = await readyOf(viewer)
  viewer.connected?.detach('broken')
  await until(() => !isRunning(pid))
  t.match(stage.audited.at(-1), { action: 'terminal.close', detail: /not resumed/ })
  const late = await connect(stage, { sessionId })
  t.match(await late.hears(), { type: 'error', reason: 'session_not_found' })
  t.equal(late.code(), 4404)
})

t.test('reports the exit of a shell to a client that reconnects later', { skip }, async t => {
  const stage = createStage(t)
  const viewer = await connect(stage)
  const { pid, sessionId } = await readyOf(viewer)
  viewer.connected?.take({ type: 'input', data: 'sleep 0.2; echo the la""st; exit 7\n' })
  viewer.connected?.detach('broken')
  await until(() => !isRunning(pid))
  const back = await connect(stage, { sessionId })
  await readyOf(back)
  t.same(await back.hears(), { type: 'exit', exitCode: 7, signal: null })
  t.match(back.text(), /the last\r\n/)
  t.equal(back.code(), 1000)
  t.match(stage.audited.at(-1), { action: 'terminal.close', detail: /exited/ })
})

t.test(
  'pauses the shell while too much is unacknowledged, but accepts input, and Ctrl-C ends the program',
  { skip },
  async t => {
    const stage = createStage(t)
    const viewer = await connect(stage)
    await readyOf(viewer)
    viewer.connected?.take({ type: 'input', data: 'yes\n' })
    await until(() => viewer.position() >= 1024 * 1024)
    let before = -1
    while (viewer.position() !== before) {
      before = viewer.position()
      await new Promise(resolve => setTimeout(resolve, 300))
    }
    t.ok(before < 1024 * 1024 + 256 * 1024, `${before} bytes without an ack`)
    viewer.connected?.take({ type: 'input', data: '\x03' })
    viewer.connected?.take({ type: 'ack', bytes: before })
    await viewer.sees(/\^C/)
    viewer.connected?.take({ type: 'input', data: 'echo inter""rupted\n' })
    await viewer.sees(/interrupted\r\n/)
    t.ok(
      viewer.position() < before + 256 * 1024,
      `${viewer.position() - before} more bytes until the program had ended`
    )
  }
)

t.test('does not pause the shell while nobody is connected, and keeps its last 256 KiB', { skip }, async t => {
  const stage = createStage(t)
  const viewer = await connect(stage)
  const { sessionId, pid } = await readyOf(viewer)
  viewer.connected?.take({ type: 'input', data: 'seq 1 1000000; echo en""d; kill -9 $$\n' })
  await until(() => viewer.position() >= 1024 * 1024)
  viewer.connected?.detach('broken')
  await until(() => !isRunning(pid))
  const back = await connect(stage, { sessionId })
  const { offset } = await readyOf(back)
  t.ok(offset > 1024 * 1024, `continues at ${offset}`)
  t.same(await back.hears(), { type: 'exit', exitCode: null, signal: 'SIGKILL' })
  // Includes what the buffer still contained when the client left.
  t.ok(back.position() >= 256 * 1024)
  t.match(back.text(), /\r\n999999\r\n1000000\r\nend\r\n$/)
})

t.test('lets a client take over from its own connection that is lost without notice', { skip }, async t => {
  const stage = createStage(t)
  const first = await connect(stage)
  const { sessionId } = await readyOf(first)
  const second = await connect(stage, { sessionId, size: { cols: 99, rows: 9 } })
  t.match(await readyOf(second), { sessionId, cols: 99, rows: 9 })
  t.match(await first.hears(), { type: 'error', reason: 'taken_over' })
  t.equal(first.code(), 4409)
  first.connected?.take({ type: 'input', data: 'echo from the first\n' })
  first.connected?.detach('closed')
  second.connected?.take({ type: 'input', data: 'stty size; echo en""d\n' })
  await second.sees(/9 99\r\n[^]*end\r\n/)
  t.notMatch(second.text(), /from the first/)
})

t.test('opens the maximum number of sessions and no more, until one has ended', { skip }, async t => {
  const stage = createStage(t, { maxSessions: 2 })
  const one = await connect(stage)
  await readyOf(one)
  await readyOf(await connect(stage))
  const third = await connect(stage)
  t.equal(third.connected, undefined)
  t.match(await third.hears(), { type: 'error', reason: 'too_many_sessions' })
  t.equal(third.code(), 4429)
  one.connected?.take({ type: 'input', data: 'exit\n' })
  t.match(await one.hears(), { type: 'exit', exitCode: 0 })
  await readyOf(await connect(stage))
})

t.test('ends a session at its next input after terminals were disabled', { skip }, async t => {
  const stage = createStage(t)
  const viewer = await connect(stage)
  const { pid } = await readyOf(viewer)
  stage.settings.enabled = false
  viewer.connected?.take({ type: 'input', data: 'echo no\n' })
  t.match(await viewer.hears(), { type: 'error', reason: 'disabled' })
  t.equal(viewer.code(), 4403)
  await until(() => !isRunning(pid))
})

t.test('ends every shell at a stop, and records it', { skip }, async t => {
  const stage = createStage(t)
  const here = await connect(stage)
  const gone = await connect(stage)
  const pids = [(await readyOf(here)).pid, (await readyOf(gone)).pid]
  gone.connected?.detach('broken')
  here.connected?.take({ type: 'input', data: 'trap "" HUP TERM; echo ig""nored\n' })
  await here.sees(/ignored/)
  await stage.terminals.stop()
  t.same(pids.map(isRunning), [false, false])
  t.match(await here.hears(), { type: 'error', reason: 'stopping' })
  t.equal(here.code(), 1001)
  t.equal(
    stage.audited.filter(({ action, detail }) => action === 'terminal.close' && detail === 'the server was stopped')
      .length,
    2
  )
  await t.rejects(stage.terminals.check(), { code: 'stopping' })
})

t.test('uses $SHELL if it is a shell, otherwise sh', async t => {
  const directory = t.testdir({ myshell: '', plain: '', nologin: '' })
  chmodSync(join(directory, 'myshell'), 0o755)
  chmodSync(join(directory, 'nologin'), 0o755)
  t.equal(findShell({ SHELL: join(directory, 'myshell') }), join(directory, 'myshell'))
  for (const SHELL of ['', 'bash', join(directory, 'missing'), directory, join(directory, 'nologin'), '/bin/false']) {
    t.equal(findShell({ SHELL }), '/bin/sh', SHELL)
  }
  t.equal(findShell({}), '/bin/sh')
})

t.test('starts a session in the target, in the home directory, or at the root', async t => {
  const directory = t.testdir({ target: {}, file: '' })
  const HOME = directory
  t.equal(findDirectory(join(directory, 'target'), { HOME }), join(directory, 'target'))
  t.equal(findDirectory(join(directory, 'not-deployed-yet'), { HOME }), directory)
  t.equal(findDirectory(join(directory, 'file'), { HOME }), directory)
  t.equal(findDirectory(null, { HOME }), directory)
  t.equal(findDirectory(null, { HOME: join(directory, 'missing') }), '/')
})

t.test('passes no secrets of svc and nothing of another terminal, and sets a locale', async t => {
  const environment = {
    PATH: '/bin',
    ADMIN_TOKEN: 'secret',
    SVC_TOKEN: 'secret',
    SVC_HOME: '/x',
    TMUX: '1',
    COLUMNS: '1',
    HOME: '/home/a',
    TERM: 'dumb'
  }
  t.same(shellEnvironment(environment, '/bin/sh'), {
    PATH: '/bin',
    HOME: '/home/a',
    LANG: 'C.UTF-8',
    SHELL: '/bin/sh',
    TERM: 'xterm-256color',
    COLORTERM: 'truecolor'
  })
  t.equal(shellEnvironment({ LC_ALL: 'de_DE.UTF-8' }, '/bin/sh')['LANG'], undefined)
  t.equal(shellEnvironment({ LANG: 'en_US.UTF-8' }, '/bin/sh')['LANG'], 'en_US.UTF-8')
})
