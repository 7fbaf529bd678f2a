import t from 'tap'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { startServe } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { urlOf } from '../../support/on-loopback.js'

t.test('health asks the server of the data directory through its socket', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd, ['--base', '/tools'])
  const env = { SVC_HOME: server.home }
  t.match(await svc(['health'], { cwd, env }), { code: 0, stdout: /^ok, version \S+, up for \d+ s\n$/, stderr: '' })
  const { code, stdout } = await svc(['health', '--json'], { cwd, env })
  t.match({ code, found: JSON.parse(stdout) }, { code: 0, found: { status: 'ok', uptime: Number, version: String } })
  await server.stop()
  t.match(await svc(['health'], { cwd, env }), {
    code: 1,
    stdout: '',
    stderr: `error: No server is running on the data directory "${server.home}". Start it`
  })
})

t.test('health reports no server without a data directory', async t => {
  const cwd = t.testdir({})
  t.match(await svc(['health'], { cwd, env: { SVC_HOME: join(cwd, 'nowhere') } }), {
    code: 1,
    stdout: '',
    stderr: /^error: No server is running on .*nowhere"/
  })
})

t.test('--url asks any server, and a wrong or unreachable server is a failure', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd, ['--base', '/tools'])
  t.match(await svc(['health', '--url', server.url], { cwd }), { code: 0, stdout: /^ok, / })
  const { origin } = new URL(server.url)
  t.match(
    await svc(['health', '--url', origin], { cwd }),
    { code: 1, stdout: '', stderr: /^error: / },
    'the prefix is part of the address'
  )
  await server.stop()
  t.match(await svc(['health', '--url', server.url], { cwd }), {
    code: 1,
    stdout: '',
    stderr: /^error: .*connection refused by/
  })
  t.match(
    await svc(['health', '--url', 'nonsense', '--wait', '60'], { cwd }),
    { code: 2, stdout: '' },
    'without waiting'
  )
})

t.test('an unhealthy server is a failure, and --wait waits until it is healthy', async t => {
  let asked = 0
  const server = createServer((_request, response) => {
    const isWell = ++asked > 2
    response.writeHead(isWell ? 200 : 503, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ status: isWell ? 'ok' : 'unhealthy', uptime: 3, version: '1.2.3' }))
  })
  const url = await urlOf(t, server)
  const cwd = t.testdir({})
  t.match(await svc(['health', '--url', url], { cwd }), { code: 1, stdout: 'unhealthy, version 1.2.3, up for 3 s\n' })
  t.match(await svc(['health', '--url', url, '--wait', '60'], { cwd }), {
    code: 0,
    stdout: 'ok, version 1.2.3, up for 3 s\n'
  })
  t.equal(asked, 3)
})

t.test('a hub that is cut off is alive: its reads are old, and the line says how old', async t => {
  const cluster = { role: 'alone', staleSeconds: 12 }
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ status: 'cut_off', uptime: 1, version: '1.0.0', cluster }))
  })
  const url = await urlOf(t, server)
  t.match(await svc(['health', '--wait', '60', '--url', url], { cwd: t.testdir({}) }), {
    code: 0,
    stdout: 'cut_off, version 1.0.0, up for 1 s, alone, reads are at most 12 s old\n'
  })
})
