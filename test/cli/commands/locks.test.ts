import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('the locks in force are listed, for a deploy token those of its project', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const pusher = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token } }
  const forum = await server.createProject({ name: 'forum', deployPath: join(cwd, 'forum') })

  t.match(await svc(['locks'], admin), { code: 0, stdout: '', stderr: /Nothing is locked/ })
  await server.api('PUT', `/api/projects/${shop.id}/lock`, { reason: 'audit' })
  await server.api('PUT', `/api/projects/${forum.id}/lock`, { reason: 'news' })
  await server.api('PUT', '/api/lock', { reason: 'move' })
  const { code, stdout } = await svc(['locks'], admin)
  t.equal(code, 0)
  t.match(stdout, /^lock +the whole server +admin .* UTC +move$/m)
  t.match(stdout, /^lock +shop +admin .* UTC +audit$/m)
  t.match(stdout, /^lock +forum +admin .* UTC +news$/m)
  await server.api('PUT', `/api/projects/${shop.id}/maintenance`, { on: true, reason: 'new disk' })
  t.match((await svc(['locks'], admin)).stdout, /^maintenance +shop +admin .* - +new disk$/m)
  await server.api('PUT', `/api/projects/${shop.id}/maintenance`, { on: false })
  t.match(JSON.parse((await svc(['locks', '--json'], pusher)).stdout), [{ projectId: null }, { projectName: 'shop' }])
})
