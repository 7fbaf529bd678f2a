import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('svc maintenance off removes the file, a changed one only with --force', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const file = join(cwd, 'www/.maintenance')
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const pusher = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token } }
  const off = { code: 0, stdout: 'Maintenance is off\n' }

  t.match(await svc(['maintenance', 'off', 'shop'], admin), off, 'it was off already')
  await server.api('PUT', `/api/projects/${shop.id}/maintenance`, { on: true })
  t.match(await svc(['maintenance', 'off', shop.id], pusher), { code: 1, stderr: /begun by admin/ })
  writeFileSync(file, 'edited')
  t.match(await svc(['maintenance', 'off', 'shop'], admin), { code: 1, stderr: /--force/ })
  t.match(await svc(['maintenance', 'off', 'shop', '--force'], admin), off)
  t.notOk(existsSync(file))
  t.same(JSON.parse((await svc(['maintenance', 'off', 'shop', '--json'], admin)).stdout), { maintenance: null })
})
