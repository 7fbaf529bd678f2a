import t from 'tap'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { maintenanceSentence } from '../../../lib/cli/commands/locks.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { matching } from '../../support/sentences/matching.js'
import { serveShop } from '../../support/shop.js'
import { svc } from '../../support/svc.js'

t.test('a lock is of a named project, of the configured one, or of the whole server', async t => {
  const { cwd, server, shop, pusher: withDeployToken } = await serveShop(t)
  const env = { SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken }
  const lock = (...words: string[]) => svc(['lock', '--reason', 'a', ...words], { cwd, env })
  const place = async (...words: string[]) => JSON.parse((await lock('--json', '--renew', ...words)).stdout).projectId

  t.match(await lock(), { code: 1, stderr: /No svc.config.json in/ })
  t.match(await lock('nothing'), { code: 1, stderr: /"nothing"/ })
  t.match(await lock('shop', '--all'), { code: 2, stderr: /not both/ })
  t.equal(await place('shop'), shop.id)
  t.equal(await place(shop.id), shop.id)
  t.equal(await place('--all'), null)
  writeFileSync(join(cwd, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: server.url }))
  t.equal(await place(), shop.id)

  t.match(await svc(['lock', '--all', '--reason', 'a'], withDeployToken), { code: 1, stderr: /admin token/ })
})

t.test('a sentence says whether a project is in maintenance', async t => {
  t.equal(maintenanceSentence(null), 'Maintenance is off')
  const maintenance = { since: '2026-11-23T18:00:12.345Z', by: 'admin', reason: null }
  t.equal(maintenanceSentence(maintenance), 'Maintenance is on since 2026-11-23 18:00 UTC, by admin')
  const why = { ...maintenance, reason: 'new disk' }
  t.equal(maintenanceSentence(why), 'Maintenance is on since 2026-11-23 18:00 UTC, by admin: "new disk"')
})

t.test('a locked project refuses a push, and svc push --wait waits for the end of the lock', async t => {
  const { cwd, server, shop, admin } = await serveShop(t)
  const site = join(cwd, 'site')
  mkdirSync(site)
  writeFileSync(join(site, 'index.html'), 'one')
  writeFileSync(join(site, 'svc.config.json'), JSON.stringify({ projectId: shop.id, serverUrl: server.url }))
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

t.test('the owner removes a lock, and the admin takes one over with a reason', async t => {
  const { server, shop, admin, pusher } = await serveShop(t)

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
  t.match(taken, { code: 0, stdout: /^Unlocked project shop: the lock was of the deploy token of shop \("mine"\)\n$/ })

  await server.api('PUT', '/api/lock', { reason: 'move' })
  t.match(JSON.parse((await svc(['unlock', '--all', '--json'], admin)).stdout), { projectId: null, reason: 'move' })
})

t.test('the locks in force are listed, for a deploy token those of its project', async t => {
  const { cwd, server, shop, admin, pusher } = await serveShop(t)
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

t.test('svc maintenance on places the page with its reason, once', async t => {
  const { cwd, server, shop, admin, pusher } = await serveShop(t)
  const file = join(cwd, 'www/.maintenance')

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

t.test('svc maintenance off removes the file, a changed one only with --force', async t => {
  const { cwd, server, shop, admin, pusher } = await serveShop(t)
  const file = join(cwd, 'www/.maintenance')
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

t.test('svc maintenance status says since when, by whom and why', async t => {
  const { cwd, server, shop } = await serveShop(t)
  const env = { SVC_SERVER_URL: server.url, SVC_DEPLOY_TOKEN: shop.token }
  const status = (...words: string[]) => svc(['maintenance', 'status', shop.id, ...words], { cwd, env })

  t.match(await status(), { code: 0, stdout: 'Maintenance is off\n' })
  await server.api('PUT', `/api/projects/${shop.id}/maintenance`, { on: true, reason: 'new disk' })
  t.match(await status(), { code: 0, stdout: /^Maintenance is on since 20.* UTC, by admin: "new disk"\n$/ })
  t.match(JSON.parse((await status('--json')).stdout), { maintenance: { by: 'admin', reason: 'new disk' } })
})
