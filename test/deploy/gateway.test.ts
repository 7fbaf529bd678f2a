import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Policy, PolicyChanges } from '../../lib/model/policy.js'
import { admin, deployStage, never } from '../support/deploy-stage.js'

const dayMs = 24 * 60 * 60_000
const dateIn = (days: number): string => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10)
/** Nothing begins today, nor yesterday or tomorrow, whatever the hour of the test. */
const frozen: NonNullable<Policy['windows']> = {
  allow: [],
  freeze: [{ from: dateIn(-1), to: dateIn(1), reason: 'audit' }],
  tz: 'UTC'
}

async function gatewayStage(t: Test, policy: PolicyChanges = {}) {
  const stage = await deployStage(t)
  const place = (name: string) => ({ name, deployPath: join(stage.directory, name) })
  const staging = await stage.addProject({ ...place('staging'), postDeployScript: 'echo staging > who' })
  const shop = await stage.addProject({ ...place('shop'), postDeployScript: 'echo shop > who', policy })
  const promote = (from: string, wish: object = {}) => stage.deployer.promote(shop.id, { from, actor: admin, ...wish })
  return { stage, staging, shop, promote, read: (name: string) => readFileSync(join(shop.deployPath, name), 'utf8') }
}

t.test('a promotion deploys the same archive, with the scripts of its own project', async t => {
  const { stage, staging, shop, promote, read } = await gatewayStage(t)
  const source = await stage.deploy(
    staging,
    { 'a.txt': 'one' },
    { message: 'New prices', preDeploy: 'echo client > pre' }
  )
  const plan = await stage.deployer.planPromotion(shop.id, { from: source.id, signal: never })
  t.match(plan, { problem: null, counts: { added: 1 }, to: { deployId: source.id } })
  const { deployId, finished } = await promote(source.id)
  t.match(await finished, {
    status: 'success',
    triggerSource: 'promotion',
    promotedFrom: source.id,
    rollbackOf: null,
    message: 'New prices',
    archiveSha256: source.archiveSha256,
    treeSha256: source.treeSha256
  })
  t.equal(read('a.txt'), 'one')
  t.equal(read('who'), 'shop\n')
  t.notOk(existsSync(join(shop.deployPath, 'pre')), 'the scripts of the other push stay there')
  t.match(await stage.output(deployId), `(the release of ${source.id}) of shop`)
  t.match(
    stage.audits.filter(({ action }) => action === 'deployment.promote'),
    [{ projectId: shop.id, target: deployId, detail: `of ${source.id}` }]
  )
  const second = await stage.deploy(staging, { 'a.txt': 'two' })
  t.match(await (await promote(second.id)).finished, { status: 'success' })
  t.match(await (await stage.deployer.rollback(deployId, { actor: admin })).finished, { status: 'success' })
  t.equal(read('a.txt'), 'one', 'a promotion can be gone back to')
})

t.test('a promotion is refused for what is no release of another project', async t => {
  const { stage, staging, shop, promote } = await gatewayStage(t)
  const own = await stage.deploy(shop, { 'a.txt': 'own' })
  await t.rejects(promote(own.id), { code: 'not_promotable', message: /Roll back to it/ })
  await t.rejects(promote('dep_unknown'), { code: 'not_found' })
  const failed = await stage.deploy(staging, { 'a.txt': 'x' }, { postDeploy: 'exit 3', preDeploy: 'exit 3' })
  await t.rejects(promote(failed.id), { code: 'not_promotable', message: /it is failed/ })
  t.match(await stage.deployer.planPromotion(shop.id, { from: failed.id, signal: never }), {
    problem: { code: 'not_promotable' }
  })
  const { id } = await stage.deploy(staging, { 'a.txt': 'y' })
  await stage.deploy(staging, { 'a.txt': 'z' })
  await stage.deployer.deleteArchive(id, { actor: admin, force: true })
  const gone = { code: 'no_archive', message: `Cannot promote deployment ${id}: its archive has been removed` }
  await t.rejects(promote(id), gone)
  t.match(await stage.deployer.planPromotion(shop.id, { from: id, signal: never }), { problem: { code: gone.code } })
})

t.test('a project with promoteFrom takes only what has been live there for a time', async t => {
  const { stage, staging, shop, promote } = await gatewayStage(t)
  const other = await stage.addProject({ name: 'other', deployPath: join(stage.directory, 'other') })
  const bind = (soakMinutes: number) =>
    stage.change(shop, { policy: { promoteFrom: { projectId: staging.id, soakMinutes } } })
  await stage.change(shop, { policy: { promoteFrom: { projectId: 'proj_gone', soakMinutes: 0 } } })
  const gone = { code: 'only_promotion', message: /proj_gone only, which was deleted\. Change its policy/ }
  await t.rejects(stage.push(shop, { 'a.txt': 'uploaded' }), gone)
  await bind(0)
  const only = {
    code: 'only_promotion',
    message: 'Project shop takes releases of staging only: svc promote staging shop'
  }
  await t.rejects(stage.push(shop, { 'a.txt': 'uploaded' }), only)
  t.throws(() => stage.deployer.checkArrival(shop.id), only)
  await t.rejects(promote((await stage.deploy(other, { 'a.txt': 'other' })).id), only)
  const first = await stage.deploy(staging, { 'a.txt': 'one' })
  const second = await stage.deploy(staging, { 'a.txt': 'two' })
  await t.rejects(promote(first.id), { code: 'not_promotable', message: /not live in staging any more/ })
  await bind(30)
  await t.rejects(promote(second.id), { code: 'not_promotable', message: /live in staging for 30 minutes more/ })
  await bind(0)
  t.match(await (await promote(second.id)).finished, { status: 'success' })
})

t.test('after an undo, an exact rollback or a repair, the release that is live again is promoted', async t => {
  const { stage, staging, shop, promote } = await gatewayStage(t)
  const { deployer } = stage
  await stage.change(shop, { policy: { promoteFrom: { projectId: staging.id, soakMinutes: 0 } } })
  const first = await stage.deploy(staging, { 'a.txt': 'one', 'b.txt': 'same' })
  const second = await stage.deploy(staging, { 'a.txt': 'two', 'b.txt': 'same' })
  const promoted = async (from: string, release: string): Promise<void> => {
    const plan = await deployer.planPromotion(shop.id, { from, signal: never })
    t.match(plan, { problem: null, to: { deployId: release } })
    t.match(await (await promote(from)).finished, { status: 'success', promotedFrom: release, fileCount: 2 })
  }
  const undo = async () => (await deployer.undo(staging.id, { actor: admin })).finished
  const back = await undo()
  t.match(back, { status: 'success', exact: true, undoOf: second.id })
  await promoted(back.id, first.id)
  await promoted(first.id, first.id)
  await t.rejects(promote(second.id), { code: 'not_promotable', message: /not live in staging any more/ })

  const again = await undo()
  t.match(again, { status: 'success', undoOf: back.id })
  await promoted(again.id, second.id)
  const exact = await (await deployer.rollback(first.id, { mode: 'exact', actor: admin })).finished
  await promoted(exact.id, first.id)
  writeFileSync(join(staging.deployPath, 'a.txt'), 'edited')
  const repaired = await (await deployer.repair(staging.id, { actor: admin, signal: never })).finished
  t.equal(repaired.status, 'success')
  await promoted(repaired.id, first.id)

  await stage.change(shop, { policy: { promoteFrom: { projectId: staging.id, soakMinutes: 30 } } })
  const soaking = { code: 'not_promotable', message: /live in staging for 30 minutes more/ }
  await t.rejects(promote(first.id), soaking)
})

t.test('outside of its windows a project takes nothing new, but goes back', async t => {
  const { stage, staging, shop, promote } = await gatewayStage(t)
  const first = await stage.deploy(shop, { 'a.txt': 'one' })
  await stage.deploy(shop, { 'a.txt': 'two' })
  const source = await stage.deploy(staging, { 'a.txt': 'three' })
  await stage.change(shop, { policy: { windows: frozen } })
  const outside = { code: 'outside_window', message: /no deployments now \("audit"\)/ }
  await t.rejects(stage.push(shop, { 'a.txt': 'x' }), outside)
  await t.rejects(promote(source.id), outside)
  t.throws(() => stage.deployer.checkArrival(shop.id, {}), outside)
  t.doesNotThrow(() => stage.deployer.checkArrival(shop.id, { override: 'the site is down' }))
  t.match(await (await stage.deployer.rollback(first.id, { actor: admin })).finished, { status: 'success' })
  t.match(await (await stage.deployer.undo(shop.id, { actor: admin })).finished, { status: 'success' })

  const forced = await stage.deploy(shop, { 'a.txt': 'fix' }, { override: 'the site is down' })
  t.match(forced, { status: 'success', override: 'the site is down' })
  t.match(await stage.output(forced.id), '→ begins outside of the windows of the project: the site is down')
  t.match(
    stage.audits.findLast(({ action }) => action === 'deployment.upload'),
    {
      detail: 'outside of the windows: the site is down'
    }
  )
})

t.test('a window that closes while a deployment is queued refuses it at its turn', async t => {
  const { stage, shop } = await gatewayStage(t)
  await stage.change(shop, { postDeployScript: 'while [ ! -e go ]; do sleep 0.05; done' })
  const running = await stage.push(shop, { 'a.txt': '1' })
  const queued = await stage.push(shop, { 'b.txt': '2', go: '' })
  const urgent = await stage.push(shop, { 'c.txt': '3', go: '' }, { override: 'urgent' })
  await stage.change(shop, { policy: { windows: frozen } })
  await stage.deployer.cancel(running.deployId, admin)
  t.match(await queued.finished, { status: 'failed', errorMessage: /outside of its windows/ })
  t.notOk(existsSync(join(shop.deployPath, 'b.txt')))
  t.match(await urgent.finished, { status: 'success' })
})
