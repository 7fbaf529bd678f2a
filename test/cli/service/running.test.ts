import t, { type Test } from 'tap'
import { execFileSync } from 'node:child_process'
import { EventEmitter } from 'node:events'
import {
  chmodSync,
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  printsToJournal,
  untilStopped,
  whereTokenShows,
  listeningOf,
  listeningOptions,
  type ListeningWords
} from '../../../lib/cli/service/running.js'
import type { RunningServer } from '../../../lib/server/serve.js'
import { type Speaker, startSpeaker } from '../../support/lines.js'
import { bareEnvironment, svc, svcPath } from '../../support/svc.js'
import { until } from '../../support/until.js'
import { parseArgs } from '../../../lib/cli/command.js'
import type { Host } from '../../../lib/cli/terminal/output.js'

t.test('the first signal waits for deployments, the second one does not', async t => {
  const signals = new EventEmitter()
  const stops: boolean[] = []
  const notes: string[] = []
  let end = (): void => {}
  const ended = new Promise<void>(resolve => (end = resolve))
  const server = {
    async stop({ wait }: { wait: boolean }) {
      stops.push(wait)
      await ended
    },
    isDeploying: () => {
      if (stops.length > 0) throw new Error('the database is closed')
      return true
    },
    reload: async () => {}
  } as unknown as RunningServer
  const running = untilStopped(Promise.resolve(server), undefined, {
    host: signals as unknown as Host,
    note: text => void notes.push(text)
  })
  signals.emit('SIGHUP')
  signals.emit('SIGTERM')
  signals.emit('SIGTERM')
  end()
  await running
  t.strictSame(stops, [true, false])
  t.equal(notes.length, 1)
})

t.test('an idle server says only that it stops', async t => {
  const signals = new EventEmitter()
  const notes: string[] = []
  const server = { stop: async () => {}, isDeploying: () => false } as unknown as RunningServer
  const starting = Promise.resolve(server)
  const running = untilStopped(starting, undefined, {
    host: signals as unknown as Host,
    note: text => void notes.push(text)
  })
  await starting
  signals.emit('SIGTERM')
  await running
  t.strictSame(notes, ['Stopping'])
})

t.test('the admin token is printed on a terminal, and where only its owner reads', async t => {
  const host = (isTTY: boolean, env: Record<string, string> = {}) => ({ env, stdout: { isTTY } }) as unknown as Host
  t.equal(await whereTokenShows(false, host(true)), 'always')
  t.equal(await whereTokenShows(false, host(false)), 'new')
  t.equal(await whereTokenShows(true, host(true)), 'never')
  t.equal(await whereTokenShows(false, host(true, { SVC_SUPERVISED: '1' })), 'never')
})

t.test('recognizes the journal by JOURNAL_STREAM', async t => {
  const file = openSync(join(t.testdir(), 'journal'), 'w')
  t.teardown(() => closeSync(file))
  const { dev, ino } = fstatSync(file)
  t.equal(printsToJournal({ JOURNAL_STREAM: `${dev}:${ino}` }, file), true)
  t.equal(printsToJournal({ JOURNAL_STREAM: `${dev}:${ino + 1}` }, file), false, 'redirected elsewhere')
  t.equal(printsToJournal({}, file), false)
})

/** What systemd is to a service: a Unix socket for datagrams, each printed as a line of JSON. */
const listener = `
import json, socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
print(json.dumps('bound'), flush=True)
while True:
    print(json.dumps(listener.recv(65536).decode()), flush=True)
`

function without(program: string): string | false {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' })
    return false
  } catch {
    return `${program} is not on this machine`
  }
}

/** Sockets have short paths. */
function shortDirectory(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'svc-notify-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

function startServer(t: Test, cwd: string, words: string[], env: Record<string, string>): Speaker {
  return startSpeaker(t, process.execPath, [svcPath, 'serve', '--port', '0', ...words], {
    cwd,
    env: bareEnvironment(cwd, env)
  })
}

t.test(
  'systemd is told by its own program when the server is ready, reloads, and stops',
  { skip: without('python3') || without('systemd-notify') },
  async t => {
    const cwd = t.testdir({})
    const socket = join(shortDirectory(t), 'notify')
    const systemd = startSpeaker(t, 'python3', ['-c', listener, socket])
    await systemd.says(/bound/)
    const server = startServer(t, cwd, [], { NOTIFY_SOCKET: socket })
    const ready = JSON.parse(await systemd.says(/READY=1/)) as string
    const url = /STATUS=Listening on (http:\S+)\/$/m.exec(ready)?.[1] as string
    t.equal((await fetch(`${url}/`)).status < 500, true, 'it is')
    t.notOk(
      systemd.lines.slice(
        1,
        systemd.lines.findIndex(line => line.includes('READY=1'))
      ).length,
      'that came first'
    )

    systemd.lines.length = 0
    server.child.kill('SIGHUP')
    t.match(JSON.parse(await systemd.says(/RELOADING=1/)), /^MONOTONIC_USEC=\d+$/m, 'what Type=notify-reload wants')
    await systemd.says(/READY=1/)

    systemd.lines.length = 0
    server.child.kill('SIGTERM')
    t.match(JSON.parse(await systemd.says(/STOPPING=1/)), /^STATUS=Stopping$/m, 'nothing is deployed')
    t.equal(await server.ended, 0)
  }
)

t.test('warns if systemd-notify cannot be run, and continues', async t => {
  const cwd = t.testdir({ 'svc-notify': {} })
  const server = startServer(t, cwd, [], { NOTIFY_SOCKET: join(cwd, 'nowhere'), PATH: cwd })
  t.match(
    await server.says(/cannot notify systemd/),
    /^warning: cannot notify systemd of "READY=1": systemd-notify failed: .+ Use Type=exec in the unit, or --ready-file/
  )
  const failing = join(cwd, 'systemd-notify')
  writeFileSync(failing, '#!/bin/sh\necho "No status data could be sent"\nexit 3\n')
  chmodSync(failing, 0o755)
  server.child.kill('SIGHUP')
  await server.says(/cannot notify systemd of "RELOADING=1": systemd-notify failed: No status data could be sent/)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
})

t.test('starts no program if systemd did not ask for notification', async t => {
  const cwd = t.testdir({})
  const marker = join(cwd, 'called')
  writeFileSync(join(cwd, 'systemd-notify'), `#!/bin/sh\n: > "${marker}"\n`)
  chmodSync(join(cwd, 'systemd-notify'), 0o755)
  const server = startServer(t, cwd, [], { PATH: `${cwd}:${process.env['PATH']}` })
  await server.says(/Data directory/)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
  t.notOk(existsSync(marker))
})

t.test('the ready file contains the URL while the server is ready; an old file is removed first', async t => {
  const cwd = t.testdir({ run: { ready: 'of a killed server\n' } })
  const file = join(cwd, 'run/ready')
  const server = startServer(t, cwd, ['--ready-file', 'run/ready'], {})
  const url = /http:\S+/.exec(await server.says(/svc listens on/))?.[0] as string
  await until(() => existsSync(file))
  t.equal(readFileSync(file, 'utf8'), `${url}\n`)
  server.child.kill('SIGTERM')
  t.equal(await server.ended, 0)
  t.notOk(existsSync(file))
})

t.test('refuses a ready file that cannot be written before the server starts', async t => {
  const cwd = t.testdir({})
  const { code, stdout, stderr } = await svc(['serve', '--port', '0', '--ready-file', 'nowhere/ready'], { cwd })
  t.match({ code, stdout }, { code: 1, stdout: '' })
  t.match(stderr, `error: Cannot write --ready-file "${join(cwd, 'nowhere/ready')}": no such file or directory`)
  mkdirSync(join(cwd, 'taken'))
  t.match(await svc(['serve', '--port', '0', '--ready-file', 'taken'], { cwd }), {
    code: 1,
    stderr: /^error: Cannot write --ready-file ".*taken": /
  })
  t.notOk(existsSync(join(cwd, '.svc')), 'no data directory')
})

const words = (line: string) =>
  parseArgs(line.split(' ').filter(Boolean), listeningOptions, {}).options as ListeningWords

t.test('reads where a server listens', async t => {
  const cases: Array<[line: string, expected: object]> = [
    ['', {}],
    ['--host :: -p 0', { host: '::', port: 0 }],
    ['--tls-cert tls/cert.pem --tls-key /etc/key.pem', { tls: { cert: '/srv/tls/cert.pem', key: '/etc/key.pem' } }],
    ['--socket svc.sock', { socket: { path: '/srv/svc.sock', mode: 0o660 } }],
    ['--socket /run/svc.sock --socket-mode 600', { socket: { path: '/run/svc.sock', mode: 0o600 } }],
    ['--socket /run/svc.sock --socket-mode 0666', { socket: { path: '/run/svc.sock', mode: 0o666 } }]
  ]
  for (const [line, expected] of cases) t.same(listeningOf(words(line), '/srv'), expected, line)
})

t.test('refuses contradicting options', async t => {
  const cases: Array<[line: string, field: string, sentence: RegExp]> = [
    ['--tls-cert a', '--tls-key', /^--tls-key is missing: --tls-cert and --tls-key must be given together$/],
    ['--tls-key a', '--tls-cert', /^--tls-cert is missing/],
    ['--socket s --port 5431', '--port', /^--port and --socket cannot be used together/],
    ['--socket s --host 127.0.0.1', '--host', /^--host and --socket cannot be used together/],
    ['--socket s --tls-cert a --tls-key b', '--tls-cert', /cannot be used together: the proxy terminates TLS/],
    ['--socket-mode 660', '--socket-mode', /can only be used with --socket/],
    ['--socket s --socket-mode 0888', '--socket-mode', /"0888": it must be three or four octal digits/],
    ['--socket s --socket-mode rw', '--socket-mode', /octal/]
  ]
  for (const [line, field, message] of cases) {
    t.throws(() => listeningOf(words(line), '/srv'), { kind: 'usage', field, message }, line)
  }
})
