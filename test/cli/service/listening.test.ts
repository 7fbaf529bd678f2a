import t from 'tap'
import { parseArgs } from '../../../lib/cli/command.js'
import { listeningOf, listeningOptions, type ListeningWords } from '../../../lib/cli/service/listening.js'

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
