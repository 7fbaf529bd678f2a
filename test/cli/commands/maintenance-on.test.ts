import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('svc maintenance on places the page with its reason, once', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const file = join(cwd, 'www/.maintenance')
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const pusher = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token } }

  const begun = await svc(['maintenance', 'on', 'shop', '--reason', 'Back at <18:00>'], admin)
  t.match(begun, { code: 0, stdout: /^Maintenance is on since 20.* UTC, by admin: "Back at <18:00>"\n$/ })
  t.match(readFileSync(file, 'utf8'), 'Back at &lt;18:00&gt;')
  t.match(await svc(['maintenance', 'on', 'shop'], admin), { code: 1, stderr: /is in maintenance since/ })
  await server.api('PUT', `/api/projects/${shop.id}/maintenance`, { on: false })
  t.notOk(existsSync(file))

  writeFileSync(file, 'mine')
  t.match(await svc(['maintenance', 'on', shop.id], pusher), { code: 1, stderr: /--force/ })
  const { code, stdout } = await svc(['maintenance', 'on', shop.id, '--force', '--json'], pusher)
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { maintenance: { by: `project:${shop.id}`, reason: null } })
})
