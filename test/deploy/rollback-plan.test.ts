import t from 'tap'
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { admin, deployStage, never } from '../support/deploy-stage.js'
import { exactTree } from '../support/exact-tree.js'
import { enrolledAgent } from '../support/fake-agent.js'
import { type Hub, startHubs } from '../support/hubs.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'

t.test('plans of rollbacks', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage
  const managed = { policy: { prune: 'managed' } } as const
  const place = (project: { deployPath: string }, path: string): string => join(project.deployPath, path)

  t.test('says what it would do, and changes nothing', async t => {
    const project = await stage.addProject(managed)
    const first = await stage.deploy(project, { a: '1', 'old/b': '1', c: '1' })
    const second = await stage.deploy(project, { a: '2', c: '2', new: '2' })
    appendFileSync(place(project, 'c'), ' by hand')
    const tree = exactTree(project.deployPath)
    const names = readdirSync(stage.home.deployments)
    const request = { signal: never }
    t.match(await deployer.planUndo(project.id, request), {
      mode: 'exact',
      to: { deployId: first.id },
      over: 1,
      problem: null,
      counts: { added: 1, changed: 1, pruned: 1, drifted: 1 },
      paths: { added: ['old/b'], pruned: ['new'], drifted: [{ path: 'c' }] }
    })
    t.match(await deployer.planRollback(first.id, request), {
      mode: 'overlay',
      to: { deployId: first.id },
      over: 0,
      counts: { added: 1, changed: 2, pruned: 1 }
    })
    rmSync(join(stage.home.deployments, `${second.id}.manifest`))
    t.match(await deployer.planRollback(first.id, { ...request, mode: 'exact' }), { problem: { code: 'not_exact' } })
    t.strictSame(exactTree(project.deployPath), tree)
    t.strictSame(
      readdirSync(stage.home.deployments),
      names.filter(name => name !== `${second.id}.manifest`)
    )
  })

  t.test('names no files of an umask', async t => {
    const project = await stage.addProject({ umask: '0027' })
    await stage.deploy(project, { a: '1' })
    await stage.change(project, { umask: '0077' })
    await stage.deploy(project, { a: '2' })
    const plan = await deployer.planUndo(project.id, { signal: never })
    t.match(plan, { counts: { changed: 1 }, paths: { changed: ['a'] }, problem: null })
    t.equal((await (await deployer.undo(project.id, { actor: admin })).finished).status, 'success')
    const now = await deployer.planUndo(project.id, { signal: never })
    t.match(now, { counts: { changed: 1 } })
    const overlay = await deployer.planRollback(now.to?.deployId ?? '', { signal: never, mode: 'overlay' })
    t.match(overlay, { counts: { changed: 1, unchanged: 0 } })
  })

  t.test('takes edited files back if it is forced', async t => {
    const project = await stage.addProject()
    await stage.deploy(project, { a: '1' })
    await stage.deploy(project, { a: '2', b: '2' })
    writeFileSync(place(project, 'b'), 'by hand')
    t.match(await deployer.planUndo(project.id, { signal: never }), { counts: { pruned: 0, kept: 1, drifted: 1 } })
    t.match(await deployer.planUndo(project.id, { signal: never, force: true }), { counts: { pruned: 1, kept: 0 } })
    t.ok(existsSync(place(project, 'b')))
  })

  t.test('says why it would be refused, and refuses what does not exist', async t => {
    const project = await stage.addProject()
    t.match(await deployer.planUndo(project.id, { signal: never }), { to: null, problem: { code: 'nothing_to_undo' } })
    await t.rejects(deployer.planUndo('proj_none', { signal: never }), { code: 'not_found' })
    await t.rejects(deployer.planRollback('dep_none', { signal: never }), { code: 'not_found' })
  })
})

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

t.test('a plan says what the way back says whose list or archive is lost', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': 'one', 'b.txt': 'b' })
  const second = await stage.deploy(project, { 'a.txt': 'two', 'b.txt': 'b' })
  await deployer.ownedTree(project.id)
  const kept = (row: DeploymentRow, ending: string): string => join(stage.home.deployments, `${row.id}.${ending}`)
  const asked = { mode: 'overlay', signal: never } as const
  const whole = await deployer.planRollback(first.id, asked)
  t.match(whole, { problem: null, counts: { changed: 1, unchanged: 1 } })

  for (const [what, damage] of [
    ['lost', () => {}],
    ['a directory', path => mkdirSync(path)],
    ['garbage', path => writeFileSync(path, 'x'.repeat(100))]
  ] as Array<[string, (path: string) => void]>) {
    for (const row of [first, second]) {
      rmSync(kept(row, 'manifest'), { recursive: true, force: true })
      damage(kept(row, 'manifest'))
    }
    const { counts, paths } = await deployer.planRollback(first.id, asked)
    t.strictSame({ counts, paths }, { counts: whole.counts, paths: whole.paths }, `${what}: the archive has it, too`)
    t.match(await deployer.planUndo(project.id, { signal: never }), { problem: { code: 'not_exact' } }, what)
    const says = what === 'lost' ? { code: 'no_manifest', message: /is lost in the data/ } : { code: 'torn_manifest' }
    await t.rejects(deployer.changes(first.id, second.id), says, what)
  }
  rmSync(kept(second, 'manifest'))
  t.match(await deployer.planRollback(first.id, asked), { problem: null })
  for (const damage of [() => {}, () => mkdirSync(kept(first, 'zip'))]) {
    rmSync(kept(first, 'zip'), { recursive: true, force: true })
    damage()
    const gone = {
      code: 'no_archive',
      message: `Cannot roll back to deployment ${first.id}: its archive has been removed`
    }
    t.match(await deployer.planRollback(first.id, asked), { problem: gone })
    await t.rejects(deployer.rollback(first.id, { mode: 'overlay', actor: admin }), gone)
  }
  const other = await stage.addProject({ name: 'other', deployPath: join(stage.directory, 'other') })
  const gone = { code: 'no_archive', message: `Cannot promote deployment ${first.id}: its archive has been removed` }
  await t.rejects(deployer.promote(other.id, { from: first.id, actor: admin }), gone)
})

t.test('a plan says what in the target would refuse the way back', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': 'one' })
  await stage.deploy(project, { 'a.txt': 'two' })
  await deployer.ownedTree(project.id)
  rmSync(project.deployPath, { recursive: true })
  t.match(await deployer.planUndo(project.id, { signal: never }), { problem: { code: 'target_emptied' } }, 'missing')
  mkdirSync(project.deployPath)
  t.match(await deployer.planUndo(project.id, { signal: never }), { problem: { code: 'target_emptied' } })
  t.match(await deployer.planUndo(project.id, { force: true, signal: never }), { problem: null })
  const { status } = await (await deployer.undo(project.id, { actor: admin })).finished
  t.equal(status, 'failed', 'it is so')
  rmSync(project.deployPath, { recursive: true })
  writeFileSync(project.deployPath, 'a file')
  const asked = { mode: 'overlay', signal: never } as const
  t.match(await deployer.planRollback(first.id, asked), { problem: { message: /is not a directory/ } })
})
