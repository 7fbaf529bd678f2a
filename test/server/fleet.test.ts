import { join } from 'node:path'
import t from 'tap'
import { ana } from '../support/fleet-stage.js'
import { loadedModules } from '../support/loaded-modules.js'
import { startNodes } from '../support/real-nodes.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

t.test('does not load the fleet of a server without nodes', async t => {
  const stage = await startServer(t)
  t.equal(stage.server.services.fleet.running(), null)
  await stage.restart()
  t.equal(stage.server.services.fleet.running(), null)
  const { fleet } = stage.server.services
  const hub = await fleet.hub()
  t.equal(await fleet.hub(), hub, 'once')
  t.equal(fleet.running(), hub)
  await hub.enrollments.create({ name: null, labels: {}, seconds: 60 }, ana)
  await stage.restart()
  t.ok(stage.server.services.fleet.running(), 'a server with an open enrollment does')
})

t.test('svc serve without nodes loads no module of the fleet, and none for archives and outgoing TLS', async t => {
  const isOfFleet = (path: string): boolean => /\/lib\/(fleet|cluster)\//.test(path)
  const isForLater = (path: string): boolean => isOfFleet(path) || /\/(yauzl|yazl)\/|^node:(dns|https|tls)/.test(path)
  t.same((await loadedModules(t)).filter(isForLater), [])
  const used = await loadedModules(t, server => server.api('POST', '/api/enrollments', {}))
  t.ok(used.some(isOfFleet), 'an enrollment does')
})

t.test('the setting script_timeout of the hub applies on nodes, where the project has no limit of its own', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const [node] = await startNodes(t, stage, [{ name: 'a' }])
  await client.put('/api/settings', { script_timeout: '1' })
  const { id, token } = await stage.createProject('shop', { postDeployScript: 'sleep 120' })
  const add = [{ node: node?.id, deployPath: join(node?.sites as string, 'shop') }]
  await client.patch(`/api/projects/${id}/placements`, { add })
  const file = { filename: 'a.zip', bytes: await zipOf({ a: '1' }) }
  await stage.as(token).upload([
    ['projectId', id],
    ['file', file]
  ])
  const { body } = await client.get(`/api/rollouts?projectId=${id}`)
  const { body: told } = await client.get(`/api/rollouts/${body.rollouts[0].id}/nodes/${node?.id}`)
  t.match(JSON.stringify(told), /was stopped: it ran longer than 1 s/)
})
