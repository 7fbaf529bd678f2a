import t from 'tap'
import { randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startServe } from '../support/serve-process.js'
import { serveShop } from '../support/shop.js'
import { svc } from '../support/svc.js'
import { findNginx, runNginx } from './nginx.js'

const program = findNginx()
const skip = program === null && 'there is no nginx on this machine'

for (const base of ['', '/tools/svc']) {
  t.test(`a push passes an nginx that nobody has configured, at "${base}/"`, { skip }, async t => {
    const cwd = t.testdir({ site: {} })
    const server = await startServe(t, cwd, base === '' ? [] : ['--base', base])
    const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
    const directory = join(cwd, 'nginx')
    mkdirSync(directory)
    const location = `location ${base}/ { proxy_pass ${new URL(server.url).origin}; }`
    const { url } = await runNginx(t, program as string, {
      directory,
      http: `access_log ${directory}/logs/access.log;`,
      location
    })
    const site = join(cwd, 'site')
    const bytes = randomBytes(3e6)
    writeFileSync(join(site, 'large.bin'), bytes)
    writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: url + base }))
    const ended = await svc(['push', '--out', '.'], { cwd: site, env: { SVC_DEPLOY_TOKEN: shop.token } })
    t.match(ended, { code: 0, stderr: /It refuses uploads of this size.*Sending it in pieces/ })
    t.ok(bytes.equals(readFileSync(join(cwd, 'www/large.bin'))))
    const log = readFileSync(join(directory, 'logs/access.log'), 'utf8')
    const statuses = [...log.matchAll(/"PATCH \S+ HTTP\/1\.1" (\d+)/g)].map(([, status]) => status)
    t.same(new Set(statuses), new Set(['200', '413']), 'larger pieces are refused, and then they stay small')
    t.strictSame(readdirSync(join(server.home, 'tmp')), [])
  })
}

t.test('an nginx that takes nothing is named, with its setting', { skip }, async t => {
  const { cwd, server, shop } = await serveShop(t, { site: {}, nginx: {} })
  const location = `location / { client_max_body_size 50k; proxy_pass ${server.url}; }`
  const { url } = await runNginx(t, program as string, { directory: join(cwd, 'nginx'), http: '', location })
  const site = join(cwd, 'site')
  writeFileSync(join(site, 'large.bin'), randomBytes(3e6))
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: url }))
  const ended = await svc(['push', '--out', '.'], { cwd: site, env: { SVC_DEPLOY_TOKEN: shop.token } })
  t.match(ended, { code: 1, stderr: /client_max_body_size 0/ })
})
