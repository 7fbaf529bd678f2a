import t, { type Test } from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import * as http from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { startAgentProcess } from '../support/agent-process.js'
import { makeSigned } from '../support/certificates.js'
import { startFakeHub, type FakeHub } from '../support/fake-hub.js'
import { freePort } from '../support/free-port.js'
import { until } from '../support/until.js'

const nginx = ['/usr/sbin/nginx', '/usr/bin/nginx', '/usr/local/sbin/nginx'].find(existsSync)

async function rollOut(t: Test, hub: FakeHub, cwd: string): Promise<void> {
  const site = join(cwd, 'site')
  const release = await hub.release('proj_a', { a: 'x'.repeat(500_000) }, { deployPath: site })
  await hub.answer(hub.order(release, 'prepare'), 'prepared')
  await hub.answer(hub.order(release, 'swap'), 'good')
  t.equal(readFileSync(join(site, 'a')).length, 500_000)
}

t.test('an agent works through nginx with a prefix and its usual buffering', { skip: nginx === undefined }, async t => {
  const cwd = t.testdir({ nginx: {} })
  const hub = await startFakeHub(t, { base: '/base' })
  const port = await freePort()
  const config = `daemon off; master_process off; pid ${cwd}/nginx/pid; error_log ${cwd}/nginx/error;
    events {}
    http { access_log off; client_body_temp_path ${cwd}/nginx/b; proxy_temp_path ${cwd}/nginx/p;
      fastcgi_temp_path ${cwd}/nginx/f; uwsgi_temp_path ${cwd}/nginx/u; scgi_temp_path ${cwd}/nginx/s;
      server { listen 127.0.0.1:${port}; location /base/ { proxy_pass ${hub.url}/; } } }`
  writeFileSync(join(cwd, 'nginx', 'conf'), config)
  const child = spawn(nginx as string, ['-p', join(cwd, 'nginx'), '-c', join(cwd, 'nginx', 'conf')], {
    stdio: 'ignore'
  })
  t.teardown(() => void child.kill())
  await until(async () => (await fetch(`http://127.0.0.1:${port}/`).catch(() => null)) !== null)
  await startAgentProcess(t, cwd, ['--hub', `http://127.0.0.1:${port}/base`, '--enroll', hub.token()])
  await hub.connected()
  await rollOut(t, hub, cwd)
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
