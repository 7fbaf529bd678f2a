import t from 'tap'
import { json, type Route } from '../../../lib/http/core/route.js'
import { sendRaw, startServer } from '../../support/http-server.js'

const routes: Route[] = [{ method: 'GET', path: '/api/now', auth: 'public', handle: () => json({ now: true }) }]
const get = (lines: string): string => `GET /api/now HTTP/1.1\r\n${lines}\r\nConnection: close\r\n\r\n`

t.test('answers to its known names and to addresses', async t => {
  const { port } = await startServer(t, routes, { allowedHosts: () => ['deploy.example.org', 'svc'] })
  const cases: Array<[string, number]> = [
    ['deploy.example.org', 200],
    ['Deploy.Example.ORG:8443', 200],
    ['deploy.example.org.', 200],
    ['svc:5431', 200],
    ['localhost', 200],
    ['localhost:5431', 200],
    ['127.0.0.1:5431', 200],
    ['127.8.8.8', 200],
    ['[::1]:5431', 200],
    ['[::1]', 200],
    ['192.0.2.7', 200],
    ['evil.test', 421],
    ['evil.test:5431', 421],
    ['deploy.example.org.evil.test', 421],
    ['xdeploy.example.org', 421],
    ['localhost.evil.test', 421],
    ['127.0.0.1.evil.test', 421],
    ['127.1', 421],
    ['2130706433', 421]
  ]
  for (const [host, status] of cases) {
    const reply = await sendRaw(port, get(`Host: ${host}`))
    t.equal(reply.status, status, host)
    if (status === 421)
      t.match(JSON.parse(reply.body), { success: false, code: 'misdirected_host', error: /allowed_hosts/ })
  }
  t.equal((await sendRaw(port, 'GET /api/now HTTP/1.0\r\n\r\n')).status, 200, 'HTTP/1.0 without a name')
})

t.test('requires a forwarded name to be a name of the server too', async t => {
  const trusted = await startServer(t, routes, {
    allowedHosts: () => ['deploy.example.org'],
    trustedProxies: () => ['127.0.0.1']
  })
  for (const [names, status] of [
    ['deploy.example.org', 200],
    ['deploy.example.org, evil.test', 421],
    ['evil.test', 421]
  ] as const) {
    t.equal(
      (await sendRaw(trusted.port, get(`Host: 127.0.0.1:5431\r\nX-Forwarded-Host: ${names}`))).status,
      status,
      names
    )
  }
  const direct = await startServer(t, routes, { allowedHosts: () => ['deploy.example.org'] })
  t.equal(
    (await sendRaw(direct.port, get('Host: deploy.example.org\r\nX-Forwarded-Host: evil.test'))).status,
    200,
    'the header of an untrusted peer is ignored'
  )
})

t.test('answers to all names if it knows none', async t => {
  const { port } = await startServer(t, routes)
  t.equal((await sendRaw(port, get('Host: evil.test'))).status, 200)
})
