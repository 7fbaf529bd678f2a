import t from 'tap'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { openPackage } from '../../lib/carry/transfer/package.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { defaultApproval } from '../../lib/model/policy.js'
import { startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'

/* Deployments that wait before they begin: packages leave them out, and a restored server waits on, or ends them with a reason. */

const dayMs = 86_400_000

t.test('a package leaves out what waits, and a restored server waits on', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const target = join(cwd, 'files')
  const shop = await server.createProject({ name: 'shop', deployPath: target })
  const live = await server.upload(shop, { 'a.txt': 'one' })
  await live.finished
  await server.changeProject(shop.id, { policy: { approval: defaultApproval } })
  const held = await server.upload(shop, { 'a.txt': 'two' })
  const later = await server.createProject({ name: 'later', deployPath: join(cwd, 'later-files') })
  const scheduled = await server.upload(
    later,
    { 'a.txt': 'one' },
    { startAt: new Date(Date.now() + dayMs).toISOString() }
  )
  for (const { finished } of [held, scheduled]) finished.catch(() => {})
  const admin = { cwd, env: { SVC_HOME: server.home, SVC_SERVER_URL: server.url, SVC_TOKEN: server.adminToken } }

  t.match(await svc(['export', '--out', 'all.zip'], admin), { code: 0 })
  const given = await openPackage(join(cwd, 'all.zip'))
  const exported: unknown[] = []
  await given.list('deployments.json', 100, item => void exported.push(item))
  const places = [`artifacts/${shop.id}.zip`, `artifacts/${later.id}.zip`].map(name => given.has(name))
  await given.close()
  t.match(exported, [{ id: live.deployId, status: 'success' }])
  t.equal(exported.length, 1, 'nothing that waits is exported, neither as running nor as failed')
  t.strictSame(places, [true, false], 'the archive is that of the live deployment')

  t.match(await svc(['backup', 'a.zip'], admin), { code: 0 })
  await server.stop()
  const home = join(cwd, 'restored')
  t.match(await svc(['restore', 'a.zip'], { cwd, env: { SVC_HOME: home } }), { code: 0 })
  const again = await startServe(t, cwd, [], { SVC_HOME: home })
  const row = async (projectId: string) => (await again.deployments(projectId))[0]
  t.match(await row(shop.id), { id: held.deployId, status: 'queued', heldFor: 'approval' })
  const waiting = await row(later.id)
  t.match(waiting, { id: scheduled.deployId, status: 'queued', heldFor: 'schedule' })
  const treeSha256 = (await row(shop.id))?.treeSha256
  await again.api('POST', `/api/deployments/${held.deployId}/approve`, { treeSha256 })
  await until(async () => (await row(shop.id))?.status === 'success')
  t.equal(readFileSync(join(target, 'a.txt'), 'utf8'), 'two')
  await again.stop()

  const store = await openStore({ directory: home })
  const missed = new Date(Date.now() - dayMs).toISOString()
  await store.write(tx =>
    tx.run('UPDATE deployments SET startAt = ?, holdUntil = ? WHERE id = ?', missed, missed, scheduled.deployId)
  )
  await store.close()
  const late = await startServe(t, cwd, [], { SVC_HOME: home })
  const ended = () => late.deployments(later.id).then(([found]) => found)
  await until(async () => (await ended())?.status === 'failed')
  t.match(await ended(), {
    errorMessage: /The server did not run at .* UTC, when the deployment was to begin/,
    heldFor: null
  })
  t.notOk(existsSync(join(cwd, 'later-files')), 'nothing was put in place')
})
