import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServeProcess } from '../../support/serve-process.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { matching } from '../../support/sentences/matching.js'
import { svc } from '../../support/svc.js'

t.test('a locked project refuses a push, and svc push --wait waits for the end of the lock', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const site = join(cwd, 'site')
  mkdirSync(site)
  writeFileSync(join(site, 'index.html'), 'one')
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: server.url }))
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const pusher = { cwd: site, env: { SVC_DEPLOY_TOKEN: shop.token } }

  t.match(await svc(['lock', 'shop'], admin), { code: 2, stderr: /--reason/ })
  t.match(await svc(['lock', 'shop', '--reason', 'a', '--for', 'long'], admin), { code: 2, stderr: /--for/ })

  const placed = await svc(['lock', 'shop', '--reason', 'audit', '--for', '2h'], admin)
  t.match(placed, { code: 0, stdout: matching(deploySays.lockedBy('Project shop', 'admin')) })
  t.match(await svc(['lock', 'shop', '--reason', 'b'], admin), {
    code: 1,
    stderr: matching(deploySays.lockedBy('Project shop', 'admin'))
  })
  const renewed = await svc(['lock', 'shop', '--reason', 'longer', '--renew', '--json'], admin)
  t.match(JSON.parse(renewed.stdout), { projectId: shop.id, reason: 'longer', owner: 'admin' })

  t.match(await svc(['push'], pusher), { code: 1, stdout: '', stderr: /locked by admin .*"longer".*svc push --wait/ })
  t.match(await svc(['push', '--wait=1s'], pusher), { code: 1, stderr: /Waiting: .*longer/ })

  let isAsked = false
  const waited = await svc(['push', '--wait'], {
    ...pusher,
    onOutput(text) {
      if (isAsked || !/Waiting: /.test(text)) return
      isAsked = true
      void svc(['unlock', 'shop'], admin)
    }
  })
  t.match(waited, { code: 0, stdout: /success/, stderr: /Waiting: Project shop is locked/ })
})
