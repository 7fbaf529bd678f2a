import t, { type Test } from 'tap'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findNginx, runNginx, startNginx } from '../proxy/nginx.js'
import { startAgentProcess } from '../support/agent-process.js'
import { makeSigned } from '../support/certificates.js'
import { startFakeHub, type FakeHub } from '../support/fake-hub.js'
import { until } from '../support/until.js'

const nginx = findNginx()
const skip = nginx === null && 'there is no nginx on this machine'

async function rollOut(t: Test, hub: FakeHub, cwd: string): Promise<void> {
  const site = join(cwd, 'site')
  const release = await hub.release('proj_a', { a: 'x'.repeat(500_000) }, { deployPath: site })
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  await hub.answer(hub.order(release, 'swap'), 'good')
  t.equal(readFileSync(join(site, 'a')).length, 500_000)
}

t.test('an agent works through nginx with a prefix and its usual buffering', { skip }, async t => {
  const cwd = t.testdir({ nginx: {} })
  const hub = await startFakeHub(t, { base: '/base' })
  const { url } = await runNginx(t, nginx as string, {
    directory: join(cwd, 'nginx'),
    http: 'access_log off;',
    location: `location /base/ { proxy_pass ${hub.url}/; }`
  })
  await startAgentProcess(t, cwd, ['--hub', `${url}/base`, '--enroll', hub.token()])
  await hub.connected()
  await rollOut(t, hub, cwd)
})

t.test('orders pass the nginx of docs/proxies.md at once, and heartbeats keep their stream open', { skip }, async t => {
  const cwd = t.testdir({ nginx: {} })
  const hub = await startFakeHub(t)
  // Without heartbeats, the second of the proxy ends a stream.
  hub.heartbeatMs = 100
  const url = await startNginx(t, nginx as string, {
    directory: join(cwd, 'nginx'),
    upstream: hub.url,
    location: '/',
    readTimeout: '1s'
  })
  const streams = (): number => hub.seen.filter(line => line.startsWith('GET /api/agent/desired')).length
  const agent = await startAgentProcess(t, cwd, ['--hub', url, '--enroll', hub.token()])
  await hub.connected()
  await sleep(2500)
  // The buffer of a proxy would keep an order until its heartbeats have filled it.
  await rollOut(t, hub, cwd)
  t.equal(streams(), 1, 'the stream that was opened first')
  t.equal(await agent.stop(), 0)

  hub.heartbeatMs = null
  await startAgentProcess(t, cwd)
  await until(() => streams() >= 3)
})

t.test('an agent works over TLS, through a proxy with CONNECT', async t => {
  const cwd = t.testdir()
  const { authority, server } = makeSigned()
  writeFileSync(join(cwd, 'ca.pem'), authority.cert)
  const hub = await startFakeHub(t, { tls: server })
  let tunnels = 0
  const proxy = http.createServer().on('connect', (request, socket) => {
    tunnels++
    const onward = connect(Number(request.url?.split(':')[1]), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      onward.pipe(socket).pipe(onward)
    })
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
  })
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => void (proxy.closeAllConnections(), proxy.close()))
  const env = { HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }
  const words = ['--hub', hub.url, '--enroll', hub.token(), '--ca', 'ca.pem']
  await startAgentProcess(t, cwd, words, { env })
  await hub.connected()
  await rollOut(t, hub, cwd)
  t.ok(tunnels > 2, 'all connections went through the proxy')

  mkdirSync(join(cwd, 'other'))
  const trusting = { ...env, NODE_EXTRA_CA_CERTS: join(cwd, 'ca.pem') }
  const other = await startAgentProcess(t, join(cwd, 'other'), ['--hub', hub.url, '--enroll', hub.token()], {
    env: trusting
  })
  await other.says(/Connected to the hub/)
})
