import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type PlanRequest, preflight } from '../../lib/deploy/plan.js'
import { Refusal } from '../../lib/base/errors.js'
import type { Project } from '../../lib/model/project.js'
import { deployStage, never } from '../support/deploy-stage.js'
import { treeBody } from '../support/planned.js'
import { insertLock } from '../../lib/core/store/tables/locks.js'
import { zipOf } from '../support/zip.js'

t.test('plans', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage

  async function request(project: Project, files: Record<string, string>): Promise<PlanRequest> {
    const site = join(stage.directory, `site-${project.id}`)
    mkdirSync(site, { recursive: true })
    for (const [path, contents] of Object.entries(files)) writeFileSync(join(site, path), contents)
    const tree = await treeBody(site)
    const asks = { prune: undefined, force: false }
    const asked = {
      asks,
      listed: 10,
      scripts: {},
      mayUpload: true,
      clientTimeMs: null,
      noSpace: null,
      maxUploadBytes: 5
    }
    return { projectId: project.id, tree, signal: never, ...asked }
  }

  t.test('returns the live deployment, the queue and the limits', async t => {
    const project = await stage.addProject()
    const first = await deployer.plan(await request(project, { a: 'x' }))
    t.match(first, { live: null, queue: { running: null, waiting: 0 }, limits: { maxUploadBytes: 5 } })
    t.match(first.project, { id: project.id, name: 'Shop' })
    const row = await stage.deploy(project, { a: 'x' }, { message: 'New prices' })
    const slow = await stage.push(project, { a: 'x' }, { postDeploy: 'sleep 30' })
    await stage.push(project, { a: 'x' })
    const { live, queue } = await deployer.plan(await request(project, { a: 'x' }))
    t.match(live, { deployId: row.id, status: 'success', message: 'New prices' })
    t.strictSame(queue, { running: slow.deployId, waiting: 1 })
    await deployer.cancel(slow.deployId, { name: 'admin', ip: '192.0.2.1' })
    t.strictSame(
      stage.audits.filter(({ action }) => action.includes('plan')),
      []
    )
  })

  t.test('a data directory without space fails its check with the code of the upload', async t => {
    const project = await stage.addProject()
    const noSpace = new Refusal('too_large', 'home_full', 'The upload was refused')
    const { checks } = await deployer.plan({ ...(await request(project, { a: 'x' })), noSpace })
    t.match(
      checks.find(({ name }) => name === 'space_home'),
      { ok: false, code: 'home_full' }
    )
  })

  t.test('refuses an unknown project, an invalid tree and an abort', async t => {
    const project = await stage.addProject()
    const good = await request(project, { a: 'x' })
    await t.rejects(deployer.plan({ ...good, projectId: 'proj_x' }), { code: 'not_found' })
    await t.rejects(deployer.plan({ ...good, tree: Buffer.from('x') }), { code: 'invalid_tree' })
    const reason = new Error('gone')
    await t.rejects(deployer.plan({ ...good, signal: AbortSignal.abort(reason) }), reason)
    t.match(await deployer.plan(good), { counts: { added: 1 } }, 'the project is free again')
  })

  t.test('a stopped server makes no plans', async t => {
    const other = await deployStage(t)
    const project = await other.addProject()
    await other.deployer.stop({ wait: true })
    await t.rejects(other.deployer.plan(await request(project, { a: 'x' })), { code: 'shutting_down' })
  })
})

t.test('an archive is refused now for what its deployment would be refused for', async t => {
  const stage = await deployStage(t)
  const { id: projectId, deployPath } = await stage.addProject()
  const archivePath = join(stage.directory, 'a.zip')
  writeFileSync(archivePath, await zipOf({ a: 'text' }))
  const request = { projectId, archivePath, offered: { origin: 'upload' as const } }
  await preflight(stage, request)
  mkdirSync(deployPath, { recursive: true })
  await preflight(stage, request)

  stage.values.allow_client_scripts = false
  await t.rejects(preflight(stage, { ...request, offered: { origin: 'upload', postDeploy: 'x' } }), {
    code: 'client_scripts_off'
  })
  await preflight(stage, { ...request, offered: { origin: 'source deployment', postDeploy: 'x' } })
  stage.values.max_extracted_size = 0
  await t.rejects(preflight(stage, request), { code: /too_large|extracted/ })
  stage.values.max_extracted_size = 64
  writeFileSync(archivePath, 'no zip')
  await t.rejects(preflight(stage, request), { name: 'Refusal' })
  writeFileSync(archivePath, await zipOf({ '../a': 'text' }).catch(() => Buffer.from('no zip')))
  await t.rejects(preflight(stage, request), { name: 'Refusal' })
  await t.rejects(preflight(stage, { ...request, projectId: 'proj_none' }), { code: 'not_found' })

  await stage.store.write(tx => {
    const [createdAt, expiresAt] = [new Date().toISOString(), '9999-01-01T00:00:00.000Z']
    insertLock(tx, { projectId, kind: 'lock', owner: 'admin', reason: 'audit', createdAt, expiresAt })
  })
  await t.rejects(preflight(stage, request), { code: 'locked' })
})

t.test('a target that cannot be made or written is refused', async t => {
  const stage = await deployStage(t)
  const archivePath = join(stage.directory, 'a.zip')
  writeFileSync(archivePath, await zipOf({ a: 'text' }))
  const file = join(stage.directory, 'file')
  writeFileSync(file, 'x')
  for (const deployPath of [file, join(file, 'below')]) {
    const { id: projectId } = await stage.addProject({ id: `proj_${deployPath.length}`, deployPath })
    const request = { projectId, archivePath, offered: { origin: 'upload' as const } }
    await t.rejects(preflight(stage, request), { code: 'not_permitted' }, deployPath)
  }
})
