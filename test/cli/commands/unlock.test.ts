import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'

t.test('the owner removes a lock, and the admin takes one over with a reason', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const pusher = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token } }

  t.match(await svc(['unlock', 'shop'], admin), { code: 1, stderr: /not found/ })
  await server.api('PUT', `/api/projects/${shop.id}/lock`, { reason: 'audit' })
  t.match(await svc(['unlock', shop.id], pusher), { code: 1, stderr: /belongs to admin/ })
  t.match(await svc(['unlock', 'shop'], admin), {
    code: 0,
    stdout: 'Unlocked project shop: the lock was of admin ("audit")\n'
  })

  t.match(await svc(['lock', shop.id, '--reason', 'mine', '--for', '5m'], pusher), { code: 0 })
  t.match(await svc(['unlock', 'shop'], admin), { code: 1, stderr: /takeOver/ })
  const taken = await svc(['unlock', 'shop', '--take-over', 'urgent'], admin)
  t.match(taken, { code: 0, stdout: /^Unlocked project shop: the lock was of project:proj_\w+ \("mine"\)\n$/ })

  await server.api('PUT', '/api/lock', { reason: 'move' })
  t.match(JSON.parse((await svc(['unlock', '--all', '--json'], admin)).stdout), { projectId: null, reason: 'move' })
})
