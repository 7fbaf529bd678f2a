import t from 'tap'
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MintedToken } from '../../lib/access/named-tokens.js'
import type { AuditEntry } from '../../lib/model/audit.js'
import { isRunning } from '../support/processes.js'
import { adminToken, type Stage, startServer } from '../support/server.js'
import { close, frame } from '../support/frames.js'
import { signIn } from '../support/session.js'
import { breakOff } from '../support/websocket.js'
import {
  browserSocket,
  connectTerminal,
  noPty as skip,
  openTerminal,
  refusalOf,
  ticketOf
} from '../support/web-terminal.js'
import { openTerminal as openLink } from '../../www/server/terminal.js'
import { until } from '../support/until.js'
import { readMessage } from '../../lib/api/terminal.js'

const environment = {
  SHELL: '/bin/bash',
  HOME: '/',
  PS1: '$ ',
  SVC_SECRET: 'a secret of ours',
  ADMIN_TOKEN: adminToken
}

async function entries({ client }: Stage, action: string): Promise<AuditEntry[]> {
  return ((await client.get(`/api/audit?action=${action}`)).body as { items: AuditEntry[] }).items
}

async function bodyOf(raw: { body(): Promise<string> }): Promise<{ code: string; error: string }> {
  return JSON.parse(await raw.body()) as { code: string; error: string }
}

t.test('a shell in the browser', { skip }, async t => {
  const stage = await startServer(t, { environment })
  t.same((await stage.client.get('/api/terminal/available')).body, { available: true })

  await t.test('runs input on a terminal of the requested size', async t => {
    const terminal = await openTerminal(stage, { query: { cols: '132', rows: '43' } })
    t.match(terminal.ready, {
      type: 'ready',
      sessionId: /^term_/,
      pid: Number,
      shell: '/bin/bash',
      cwd: '/',
      projectId: null,
      cols: 132,
      rows: 43,
      offset: 0
    })
    terminal.type('stty size; echo "$TERM $COLORTERM"\n')
    await terminal.sees(/43 132\r\nxterm-256color truecolor\r\n/)
    terminal.say({ type: 'resize', cols: 100, rows: 30 })
    terminal.type('stty size; echo "€ 😀"; env | grep -c "secret of ours\\|ADMIN_TOKEN\\|test-admin"\n')
    await terminal.sees(/30 100\r\n€ 😀\r\n0\r\n/)
    terminal.say({ type: 'ping' })
    const pong = await terminal.hears()
    t.ok(pong.type === 'pong' && Math.abs(pong.ts - Date.now()) < 60_000)
    terminal.raw.say('nonsense')
    t.match(await terminal.hears(), { type: 'error', reason: 'invalid_message' })
    terminal.say({ type: 'ack', bytes: 10 ** 12 })
    t.match(await terminal.hears(), { type: 'error', reason: 'invalid_message' })
    terminal.type('exit 3\n')
    t.same(await terminal.hears(), { type: 'exit', exitCode: 3, signal: null })
    t.equal(await terminal.closed(), 1000)
  })

  await t.test('Ctrl-C ends a command that floods the screen', async t => {
    const terminal = await openTerminal(stage)
    terminal.type('yes\n')
    await until(() => terminal.position() >= 3 * 1024 * 1024)
    terminal.type('\x03')
    await terminal.sees(/\^C/)
    terminal.type('echo en""d\n')
    await terminal.sees(/end\r\n/)
    terminal.raw.close(1000)
    t.equal(await terminal.closed(), 1000)
  })

  await t.test('a paste of 3 MB arrives whole, however slowly it is read, and after a broken connection', async t => {
    const file = join(t.testdir(), 'pasted')
    const lines = Array.from({ length: 40_000 }, (_, i) => `line ${i} ${'é😀x'.repeat(8)}`)
    const paste = `${lines.join('\n')}\n`
    let text = ''
    let socket: ReturnType<typeof browserSocket> | undefined
    const link = openLink({
      client: { address: path => path, ask: async () => ({}) as never, ensureProven: async () => {} },
      projectId: null,
      size: { columns: 80, rows: 24 },
      onData: (data, drawn) => {
        text += data
        drawn()
      },
      onGap: () => {},
      onState: () => {},
      openSocket: address => (socket = browserSocket(stage, address))
    })
    t.teardown(() => link.close())
    link.send(`stty -echo; echo rea""dy; (sleep 1; cat) > ${file}; echo do""ne\n`)
    await until(() => text.includes('ready'))
    link.send(paste)
    link.send('\x04')
    await until(() => statSync(file).size > 1_000_000)
    socket?.cut()
    await until(() => text.includes('done'))
    t.ok(readFileSync(file, 'utf8') === paste)
    t.notOk(link.isInputLost)
  })

  await t.test('a close frame ends the shell', async t => {
    const terminal = await openTerminal(stage)
    terminal.type('sleep 1000 & echo "pid=$!."\n')
    const job = Number((await terminal.sees(/pid=(\d+)\./))[1])
    terminal.raw.write(frame({ opcode: close }))
    await terminal.closed()
    await until(() => !isRunning(terminal.ready.pid) && !isRunning(job))
    const again = await refusalOf(await connectTerminal(stage, { query: { sessionId: terminal.ready.sessionId } }))
    t.match(again, { reason: 'session_not_found', code: 'close 4404' })
  })

  await t.test('a close frame with 1001, as from a reloaded page, keeps the shell for the next connection', async t => {
    const terminal = await openTerminal(stage)
    terminal.type('x=kept; echo en""d\n')
    await terminal.sees(/end\r\n/)
    terminal.raw.close(1001)
    await terminal.closed()
    const again = await openTerminal(stage, { query: { sessionId: terminal.ready.sessionId, from: '0' } })
    t.match(again.ready, { pid: terminal.ready.pid, offset: 0 })
    await again.sees(/end\r\n/)
    again.type('echo "still $x"\n')
    await again.sees(/still kept\r\n/)
    again.raw.close(1000)
    await again.closed()
  })

  await t.test('refuses binary frames and frames that are too large', async t => {
    const binary = await openTerminal(stage)
    binary.raw.write(frame({ opcode: 2, payload: 'ls' }))
    t.equal(await binary.closed(), 1003)
    const large = await openTerminal(stage)
    large.raw.write(frame({ opcode: 1, length: 1024 * 1024 + 1 }))
    t.equal(await large.closed(), 1009)
  })

  await t.test('starts in the target of the project if the target exists', async t => {
    const project = await stage.createProject('shop')
    const early = await openTerminal(stage, { query: { projectId: project.id } })
    t.match(early.ready, { cwd: '/', projectId: project.id })
    mkdirSync(project.deployPath, { recursive: true })
    const terminal = await openTerminal(stage, { query: { projectId: project.id } })
    t.match(terminal.ready, { cwd: project.deployPath, projectId: project.id })
    terminal.type('pwd; echo en""d\n')
    await terminal.sees(new RegExp(`${project.deployPath}\r\nend`))
    t.match((await entries(stage, 'terminal.open'))[0], {
      projectId: project.id,
      target: terminal.ready.sessionId,
      actor: 'admin',
      ip: '127.0.0.1',
      ok: true
    })
    for (const one of [early, terminal]) one.raw.close()
    const unknown = await connectTerminal(stage, { query: { projectId: 'proj_unknown' } })
    t.equal(unknown.status, 404)
  })

  await t.test('opening and closing are in the audit log', async t => {
    const terminal = await openTerminal(stage)
    terminal.raw.close()
    await terminal.closed()
    const closed = async () =>
      (await entries(stage, 'terminal.close')).find(({ target }) => target === terminal.ready.sessionId)
    await until(async () => (await closed()) !== undefined)
    t.match(await closed(), { actor: 'admin', ip: '127.0.0.1', detail: 'closed by its user' })
    t.notMatch(JSON.stringify((await stage.client.get('/api/audit?limit=500')).body), adminToken)
  })
})

t.test('a broken connection is continued without lost or repeated bytes', { skip }, async t => {
  const stage = await startServer(t, { environment })
  const directory = stage.sites
  const script = join(directory, 'print.sh')
  // About 1 MB in bursts, with characters of every length. Much of it is written while no client is connected.
  writeFileSync(
    script,
    'i=0; while [ $i -lt 100 ]; do seq -f "%.0f é€😀" $((i * 1000 + 1)) $((i * 1000 + 1000)); sleep 0.004; i=$((i + 1)); done; echo done; read end\n'
  )
  let terminal = await openTerminal(stage)
  const { sessionId } = terminal.ready
  terminal.type(`stty -echo; PS1=; clear; sh ${script}\n`)
  let received = Buffer.alloc(0)
  const keep = (text: string, offset: number): void => {
    t.ok(offset <= received.length, `it goes on at ${offset} of ${received.length}`)
    const bytes = Buffer.from(text)
    const known = received.length - offset
    if (!received.subarray(offset).equals(bytes.subarray(0, known))) t.fail('what came twice is the same')
    received = Buffer.concat([received, bytes.subarray(known)])
  }
  const isOver = (): boolean => `${received.subarray(-10).toString('latin1')}${terminal.drawn()}`.endsWith('done\r\n')
  for (let round = 0; ; round++) {
    const want = received.length + 60_000
    await until(() => terminal.position() >= want || isOver())
    const wasLast = isOver()
    if (!wasLast) await breakOff(terminal.raw)
    keep(terminal.drawn(), terminal.ready.offset)
    if (wasLast) break
    // Alternates between the last ack and the number of received bytes.
    const query: Record<string, string> = round % 2 === 0 ? { sessionId } : { sessionId, from: String(received.length) }
    const before = received.length
    terminal = await openTerminal(stage, { query })
    t.equal(terminal.ready.sessionId, sessionId)
    if (round % 2 === 1) t.equal(terminal.ready.offset, before)
  }
  const lines = received.toString('utf8').split('\r\n')
  const numbers = lines.filter(line => line.endsWith(' é€😀')).map(line => /(\d+) é€😀$/.exec(line)?.[1])
  t.equal(numbers.length, 100_000)
  t.equal(
    numbers.findIndex((number, i) => Number(number) !== i + 1),
    -1,
    'every line, in order'
  )
  const { offset } = (await openTerminal(stage, { query: { sessionId, from: '0' } })).ready
  t.ok(offset > 0 && received.length - offset >= 256 * 1024, 'a page that lost its screen gets the kept output')
})

t.test('output of a large file can be interrupted, and needs no more memory than the window', { skip }, async t => {
  const stage = await startServer(t, { environment })
  const file = join(stage.sites, 'large.txt')
  writeFileSync(file, Buffer.alloc(50 * 1024 * 1024, `${'x'.repeat(79)}\n`))
  const terminal = await openTerminal(stage, { acknowledges: false })
  terminal.type(`cat ${file}\n`)
  let before = -1
  while (terminal.position() !== before || before < 1024 * 1024) {
    before = terminal.position()
    await new Promise(resolve => setTimeout(resolve, 200))
  }
  t.ok(before < 1024 * 1024 + 128 * 1024, `${before} bytes came, then it was paused`)
  terminal.type('\x03')
  terminal.say({ type: 'ack', bytes: terminal.position() })
  await terminal.sees(/\^C/)
  terminal.type('echo en""d\n')
  await terminal.sees(/end\r\n/)
  t.ok(terminal.position() < 3 * 1024 * 1024, `${terminal.position()} of 50 MB came in all`)
})

t.test('only allowed callers can open a terminal', { skip }, async t => {
  const stage = await startServer(t, { environment })
  const { client, url } = stage
  const refused = async (options: Parameters<typeof connectTerminal>[1]): Promise<[number, string]> => {
    const raw = await connectTerminal(stage, options)
    return [raw.status, (await bodyOf(raw)).code]
  }

  t.same(await refused({ ticket: '' }), [401, 'unauthorized'], 'no ticket')
  t.same(await refused({ ticket: 'guessed' }), [401, 'unauthorized'])
  t.same(
    await refused({ ticket: adminToken }),
    [401, 'unauthorized'],
    'the token itself is never taken from an address'
  )
  const download = (await client.post('/api/tickets', { purpose: 'download' })).body as { ticket: string }
  t.same(await refused({ ticket: download.ticket }), [401, 'unauthorized'], 'a ticket with another purpose')
  const ticket = await ticketOf(stage)
  const used = await openTerminal(stage, { ticket })
  t.same(await refused({ ticket }), [401, 'unauthorized'], 'a used ticket')
  used.raw.close()

  t.same(await refused({ headers: { origin: 'https://evil.test' } }), [403, 'foreign_origin'])
  const own = await openTerminal(stage, { headers: { origin: new URL(url).origin } })
  own.raw.close()
  const proxied = { host: 'inside', 'x-forwarded-host': 'deploy.example.org', origin: 'https://deploy.example.org' }
  const behind = await openTerminal(stage, { headers: proxied })
  behind.raw.close()
  await client.put('/api/settings', { trusted_proxies: '192.0.2.1' })
  t.same(await refused({ headers: proxied }), [403, 'foreign_origin'], 'an unknown address is not a proxy')

  const program = await openTerminal(stage, {
    ticket: '',
    headers: { 'sec-websocket-protocol': `svc-admin-token, ${adminToken}` }
  })
  t.equal(program.raw.headers['sec-websocket-protocol'], 'svc-admin-token')
  program.raw.close()
  t.same(await refused({ ticket: '', headers: { 'sec-websocket-protocol': 'svc-admin-token, wrong' } }), [
    401,
    'unauthorized'
  ])
  t.same(await refused({ ticket: '', headers: { 'sec-websocket-protocol': adminToken } }), [401, 'unauthorized'])
  const header = await openTerminal(stage, { ticket: '', headers: { authorization: `Bearer ${adminToken}` } })
  header.raw.close()

  t.equal((await stage.as(null).get('/api/terminal/available')).status, 401)
  t.equal((await client.get('/api/terminal/ws')).status, 426)
  t.same(await refused({ query: { cols: '0' } }), [400, 'invalid_field'])
  t.same(await refused({ query: { rows: '1001' } }), [400, 'invalid_field'])
  t.same(await refused({ query: { from: 'x' } }), [400, 'invalid_field'])

  const open = await openTerminal(stage)
  await client.put('/api/settings', { terminal_enabled: 'false' })
  t.match((await client.get('/api/terminal/available')).body, {
    available: false,
    reason: /terminal_enabled/,
    code: 'terminal_disabled'
  })
  t.same(await refused({}), [403, 'terminal_disabled'])
  open.type('echo\n')
  t.equal(await open.closed(), 4403)
  await client.put('/api/settings', { terminal_enabled: 'true', trusted_proxies: '127.0.0.1' })

  await client.put('/api/settings', { allowed_ips: '127.0.0.1' })
  const elsewhere = { 'x-forwarded-for': '198.51.100.7' }
  t.same(await refused({ headers: elsewhere }), [403, 'address_not_allowed'])
  t.match((await client.get('/api/terminal/available', elsewhere)).body, { available: false, reason: /allowed_ips/ })
  const allowed = await openTerminal(stage)
  allowed.raw.close()
})

t.test('a shell ends with the right of its user, with all its jobs, also if nobody is connected', { skip }, async t => {
  const stage = await startServer(t, { environment })
  const { client } = stage
  const mint = async (name: string) => (await client.post('/api/tokens', { name, role: 'admin' })).body as MintedToken
  /** Opens a shell with jobs in the foreground and background; half of them are then without a client. */
  const openWith = async (headers: Record<string, string>, isAlone: boolean) => {
    const { body } = await stage.as(null).post('/api/tickets', { purpose: 'terminal' }, headers)
    const shell = await openTerminal(stage, { ticket: body.ticket })
    shell.type(
      'sleep 1000 & echo "a=$!."; nohup sleep 1000 >/dev/null 2>&1 & echo "b=$!."; sh -c \'echo "c=$$."; sleep 1000\'\n'
    )
    const jobs: number[] = []
    for (const name of 'abc') jobs.push(Number((await shell.sees(new RegExp(`${name}=(\\d+)\\.`)))[1]))
    if (isAlone) await breakOff(shell.raw)
    return [shell.ready.pid, ...jobs]
  }
  const [revoked, lowered] = [await mint('revoked'), await mint('lowered')]
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const session = await signIn(stage.as(null), {})
  const ways: Array<[string, Record<string, string>, () => Promise<unknown>]> = [
    ['a revoked token', bearer(revoked.token), () => client.delete(`/api/tokens/${revoked.record.id}`)],
    [
      'a lower role',
      bearer(lowered.token),
      () => client.patch(`/api/tokens/${lowered.record.id}`, { role: 'operator' })
    ],
    ['an ended session', session.headers, () => client.delete(`/api/sessions/${session.id}`)],
    ['terminals switched off', bearer(adminToken), () => client.put('/api/settings', { terminal_enabled: 'false' })]
  ]
  for (const [what, headers, end] of ways) {
    const pids = [...(await openWith(headers, false)), ...(await openWith(headers, true))]
    t.ok(pids.every(isRunning), what)
    await end()
    const left = () => pids.filter((pid, i) => isRunning(pid) && (what !== 'terminals switched off' || i % 4 !== 2))
    await until(() => left().length === 0)
    for (const pid of pids.filter(isRunning)) process.kill(pid)
  }
  t.match((await entries(stage, 'terminal.close')).map(({ actor, detail }) => `${actor}: ${detail}`).sort(), [
    'admin: its user has lost the right',
    'admin: its user has lost the right',
    'admin: switched off in the settings',
    'admin: switched off in the settings',
    'token:lowered: its user has lost the right',
    'token:lowered: its user has lost the right',
    'token:revoked: its user has lost the right',
    'token:revoked: its user has lost the right'
  ])
})

t.test('allows ten terminals at a time', { skip }, async t => {
  const stage = await startServer(t, { environment: { ...environment, SHELL: '/bin/sh' } })
  const terminals = []
  for (let i = 0; i < 10; i++) terminals.push(await openTerminal(stage))
  t.match(await refusalOf(await connectTerminal(stage)), { reason: 'too_many_sessions', code: 'close 4429' })
  terminals[0]?.raw.close()
  await terminals[0]?.closed()
  const another = await openTerminal(stage)
  t.equal(another.ready.offset, 0)
})

t.test('works below a prefix; a server that stops reports it and leaves no shell', { skip }, async t => {
  const stage = await startServer(t, { environment, base: '/tools/svc' })
  const terminal = await openTerminal(stage)
  const lost = await openTerminal(stage)
  await breakOff(lost.raw)
  await stage.server.stop({ wait: true })
  t.match(await terminal.hears(), { type: 'error', reason: 'stopping' })
  t.equal(await terminal.closed(), 1001)
  t.same(
    [terminal, lost].map(({ ready }) => isRunning(ready.pid)),
    [false, false]
  )
  await stage.restart()
  t.equal((await entries(stage, 'terminal.close')).length, 2)
})

t.test('serve --no-terminal overrides the setting', async t => {
  const stage = await startServer(t, { environment, terminal: false, settings: { terminal_enabled: 'true' } })
  t.match((await stage.client.get('/api/terminal/available')).body, { available: false, reason: /--no-terminal/ })
  const refused = await connectTerminal(stage)
  t.equal(refused.status, 403)
  t.match(await bodyOf(refused), { code: 'terminal_disabled', error: /--no-terminal/ })
})

t.test('docs/streams.md lists the message types of the code', async t => {
  const documented = readFileSync(new URL('../../../docs/streams.md', import.meta.url), 'utf8')
  const model = readFileSync(new URL('../../../lib/model/terminal.ts', import.meta.url), 'utf8')
  for (const [, type] of model.matchAll(/type: '(\w+)'/g))
    t.match(documented, new RegExp(`\\| (client|server) \\| \`${type}\` \\|`), String(type))
})

t.test('accepts the messages of a client', async t => {
  t.same(readMessage('{"type":"input","data":"ls\\r","more":1}'), { type: 'input', data: 'ls\r' })
  t.same(readMessage('{"type":"resize","cols":132,"rows":43}'), { type: 'resize', cols: 132, rows: 43 })
  t.same(readMessage('{"type":"ping"}'), { type: 'ping' })
  t.same(readMessage('{"type":"ack","bytes":0}'), { type: 'ack', bytes: 0 })
})

for (const text of [
  '',
  'ls',
  '[]',
  'null',
  '1',
  '"input"',
  '{}',
  '{"type":"data","data":"x"}',
  '{"type":"input"}',
  '{"type":"input","data":1}',
  '{"type":"resize","cols":80}',
  '{"type":"resize","cols":0,"rows":24}',
  '{"type":"resize","cols":80,"rows":1001}',
  '{"type":"resize","cols":80.5,"rows":24}',
  '{"type":"resize","cols":"80","rows":"24"}',
  '{"type":"ack","bytes":-1}',
  '{"type":"ack","bytes":1e300}',
  '{"type":"ack"}',
  '{"type":"__proto__"}'
]) {
  t.test(`refuses ${text === '' ? 'an empty message' : text}`, async t => {
    t.match(readMessage(text), { type: 'invalid', sentence: /^Invalid message: / })
  })
}
