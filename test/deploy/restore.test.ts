import t from 'tap'
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { enrolledAgent } from '../support/fake-agent.js'
import { startHubs, type Hub } from '../support/hubs.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'

t.test('restore', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('shop', { preDeployScript: 'sleep 0.3; echo ran > ran' })
  const { deployer } = stage.server.services
  const archivePath = join(stage.home.tmp, 'archive.zip')
  writeFileSync(archivePath, await zipOf({ 'index.html': 'restored' }))
  mkdirSync(project.deployPath)
  writeFileSync(join(project.deployPath, 'extra'), 'stays')

  await t.test('extracts over the target, without scripts and without a record', async t => {
    await deployer.restore({ projectId: project.id, archivePath, deployId: null })
    t.strictSame(readdirSync(project.deployPath).sort(), ['extra', 'index.html'])
    t.strictSame((await stage.client.get('/api/logs')).body, [])
    t.strictSame(readdirSync(stage.home.deployments), [])
  })

  await t.test('waits for the running deployment', async t => {
    const bytes = await zipOf({ 'index.html': 'deployed' })
    const upload = stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes }]
    ])
    const isRunning = async () => (await stage.client.get('/api/logs')).body[0]?.status === 'running'
    await until(isRunning)
    await deployer.restore({ projectId: project.id, archivePath, deployId: null })
    t.equal(readFileSync(join(project.deployPath, 'index.html'), 'utf8'), 'restored')
    t.ok(readdirSync(project.deployPath).includes('ran'))
    await upload
  })

  await t.test('makes the deployment of the archive live if it has a record', async t => {
    const [deployed] = (await stage.client.get('/api/logs')).body
    const other = await stage.createProject('other')
    await deployer.restore({ projectId: other.id, archivePath, deployId: deployed.id })
    await deployer.restore({ projectId: other.id, archivePath, deployId: 'dep_none' })
    t.equal((await stage.client.get(`/api/logs/${deployed.id}`)).body.placed, 1, 'not in another project')
    await deployer.restore({ projectId: project.id, archivePath, deployId: deployed.id })
    t.equal((await stage.client.get(`/api/logs/${deployed.id}`)).body.placed, 2)
    t.strictSame(
      readdirSync(stage.home.deployments).filter(name => name.endsWith('.undo')),
      []
    )
  })

  await t.test('refuses an unknown project, and every request while the server stops', async t => {
    await t.rejects(deployer.restore({ projectId: 'proj_x', archivePath, deployId: null }), { code: 'not_found' })
    await deployer.stop({ wait: true })
    await t.rejects(deployer.restore({ projectId: project.id, archivePath, deployId: null }), { code: 'shutting_down' })
  })
})

t.test('a project whose files are on nodes is not restored here', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('shop')
  const archivePath = join(stage.home.tmp, 'archive.zip')
  writeFileSync(archivePath, await zipOf({ 'index.html': 'restored' }))
  await enrolledAgent({ url: stage.url, hub: await stage.server.services.fleet.hub() }, 'n1')
  await stage.client.patch(`/api/projects/${project.id}/placements`, { add: [{ node: 'n1' }], remove: [] })
  const { restore } = stage.server.services.deployer
  await t.rejects(restore({ projectId: project.id, archivePath, deployId: null }), { code: 'project_is_placed' })
  t.notOk(existsSync(project.deployPath))
})

t.test('a hub of a cluster restores nothing on its own disk', async t => {
  const { hubs, sites } = await startHubs(t)
  const [leader] = hubs as [Hub]
  const { body } = await leader.client.post('/api/projects', { name: 'Shop', deployPath: `${sites}/shop` })
  const { id } = body.project ?? body
  const archivePath = join(leader.directory, 'tmp', 'archive.zip')
  writeFileSync(archivePath, await zipOf({ 'index.html': 'restored' }))
  const { restore } = leader.server.services.deployer
  await t.rejects(restore({ projectId: id, archivePath, deployId: null }), { code: 'not_placed' })
  t.notOk(existsSync(`${sites}/shop`))
})
