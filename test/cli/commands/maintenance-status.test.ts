import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('svc maintenance status says since when, by whom and why', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token }
  const status = (...words: string[]) => svc(['maintenance', 'status', shop.id, ...words], { cwd, env })

  t.match(await status(), { code: 0, stdout: 'Maintenance is off\n' })
  await server.api('PUT', `/api/projects/${shop.id}/maintenance`, { on: true, reason: 'new disk' })
  t.match(await status(), { code: 0, stdout: /^Maintenance is on since 20.* UTC, by admin: "new disk"\n$/ })
  t.match(JSON.parse((await status('--json')).stdout), { maintenance: { by: 'admin', reason: 'new disk' } })
})
