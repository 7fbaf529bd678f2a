import t from 'tap'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startNameServer } from '../support/name-server.js'
import { startServer } from '../support/server.js'
import { bareEnvironment, svcPath } from '../support/svc.js'
import { until } from '../support/until.js'

/** A loopback address without another DNS server. */
const nameServer = '127.0.53.53'
// What getaddrinfo would wait: minutes. Longer than any test may take.
const resolvConf = `nameserver ${nameServer}\noptions timeout:30 attempts:5\n`
/** Runs a program that sees another /etc/resolv.conf, and nothing else that is different. */
const elsewhere = ['-m', 'sh', '-c', 'mount --bind "$0" /etc/resolv.conf && exec "$@"']
const may = spawnSync('unshare', ['-m', 'sh', '-c', 'mount --bind /dev/null /etc/resolv.conf']).status === 0
const skip = !may && 'only root, with "unshare", can give a program another /etc/resolv.conf'

t.test('a DNS server that never answers', { skip }, async t => {
  const cwd = t.testdir({ 'resolv.conf': resolvConf })
  const { asked } = await startNameServer(
    t,
    { 'stats.test': null, 'hook.test': null },
    { address: nameServer, port: 53 }
  )
  const env = bareEnvironment(cwd, { SVC_TELEMETRY_ENDPOINT: 'http://stats.test/report' })

  function start(words: string[], more: Record<string, string> = {}, from = cwd) {
    const child = spawn('unshare', [...elsewhere, join(cwd, 'resolv.conf'), process.execPath, svcPath, ...words], {
      cwd: from,
      env: { ...env, ...more },
      stdio: ['ignore', 'pipe', 'inherit']
    })
    t.teardown(() => child.kill('SIGKILL'))
    const said = { text: '' }
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said.text += text))
    return { child, said, ended: once(child, 'close') }
  }

  await t.test('does not hold a push that reports to it', async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('shop', { preDeployScript: 'until [ -e go ]; do sleep 0.05; done' })
    const from = join(stage.sites, 'from')
    mkdirSync(from)
    writeFileSync(join(from, 'svc.config.json'), JSON.stringify({ projectId: project.id, serverUrl: stage.url }))
    writeFileSync(join(from, 'index.html'), 'hello')
    const push = start(['push'], { SVC_DEPLOY_TOKEN: project.token }, from)
    await until(() => asked.includes('stats.test'))
    mkdirSync(project.deployPath, { recursive: true })
    writeFileSync(join(project.deployPath, 'go'), '')
    t.same(await push.ended, [0, null])
    t.match(push.said.text, /success/)
  })

  await t.test('a silent name server does not delay the stop of the server', async t => {
    asked.length = 0
    const server = start(['serve', '--port', '0'])
    await until(() => server.said.text.includes('Data directory: ') && asked.includes('stats.test'))
    const [, url, token] = /listens on (\S+)\/\n[^]*Admin token: (\S+)/.exec(server.said.text) as unknown as [
      string,
      string,
      string
    ]
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    await fetch(`${url}/api/settings`, { method: 'PUT', headers, body: '{"webhook_url":"http://hook.test/"}' })
    const test = fetch(`${url}/api/settings/webhook-test`, { method: 'POST', headers }).catch(() => null)
    await until(() => asked.includes('hook.test'))
    server.child.kill('SIGTERM')
    t.same(await server.ended, [0, null])
    await test
  })
})
