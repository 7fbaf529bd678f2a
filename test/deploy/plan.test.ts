import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PlanRequest } from '../../lib/deploy/plan.js'
import { Refusal } from '../../lib/base/errors.js'
import type { Project } from '../../lib/model/project.js'
import { deployStage, never } from '../support/deploy-stage.js'
import { treeBody } from '../support/planned.js'

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
