import t from 'tap'
import { readRelayedRequest } from '../../../lib/fleet/relay/relayed-request.js'
import { relayedHeaders } from '../../../lib/model/fleet-wire.js'

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
