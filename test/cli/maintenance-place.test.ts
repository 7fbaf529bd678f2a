import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { maintenanceSentence } from '../../lib/cli/maintenance-place.js'
import { startServeProcess } from '../support/serve-process.js'
import { svc } from '../support/svc.js'

t.test('svc maintenance on, status and off', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const shop = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  const file = join(cwd, 'www/.maintenance')
  const admin = { cwd, env: { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }
  const pusher = { cwd, env: { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token } }
  const status = async (...words: string[]) => svc(['maintenance', 'status', 'shop', ...words], admin)

  t.match(await status(), { code: 0, stdout: 'Maintenance is off\n' })
  const begun = await svc(['maintenance', 'on', 'shop', '--reason', 'Back at <18:00>'], admin)
  t.match(begun, { code: 0, stdout: /^Maintenance is on since 20.* UTC, by admin: "Back at <18:00>"\n$/ })
  t.match(readFileSync(file, 'utf8'), 'Back at &lt;18:00&gt;')
  t.equal((await status()).stdout, begun.stdout)
  t.match(JSON.parse((await status('--json')).stdout), { maintenance: { by: 'admin', reason: 'Back at <18:00>' } })
  t.match(await svc(['maintenance', 'on', 'shop'], admin), { code: 1, stderr: /is in maintenance since/ })
  t.match(await svc(['maintenance', 'off', shop.id], pusher), { code: 1, stderr: /begun by admin/ })

  writeFileSync(file, 'edited')
  t.match(await svc(['maintenance', 'off', 'shop'], admin), { code: 1, stderr: /--force/ })
  t.match(await svc(['maintenance', 'off', 'shop', '--force'], admin), { code: 0, stdout: 'Maintenance is off\n' })
  t.notOk(existsSync(file))

  const json = JSON.parse((await svc(['maintenance', 'on', shop.id, '--json'], pusher)).stdout)
  t.match(json, { maintenance: { by: `project:${shop.id}`, reason: null } })
  t.same(JSON.parse((await svc(['maintenance', 'off', shop.id, '--json'], pusher)).stdout), { maintenance: null })
})

t.test('a sentence says whether a project is in maintenance', async t => {
  t.equal(maintenanceSentence(null), 'Maintenance is off')
  const maintenance = { since: '2026-11-23T18:00:12.345Z', by: 'admin', reason: null }
  t.equal(maintenanceSentence(maintenance), 'Maintenance is on since 2026-11-23 18:00 UTC, by admin')
})
