import t from 'tap'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createKeptPlans,
  type KeptPlan,
  linesOfEdits,
  ownershipOf,
  refuseOtherLive,
  wishesOf
} from '../../lib/deploy/ownership.js'
import type { Trees } from '../../lib/deploy/trees.js'
import type { PolicyChanges } from '../../lib/model/policy.js'
import { deployStage, never } from '../support/deploy-stage.js'
import { snapshot } from '../support/tree.js'
import { aProject } from '../core/store/stage.js'

t.test('the guard of edited files', async t => {
  const stage = await deployStage(t)
  const warning = /replaced "(.*)", which was edited on the server after deployment (\w+)/g

  t.test('by default, a deployment names the edited files that it replaces', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: 'one', b: 'one', c: 'one' })
    t.notMatch(await stage.output(first.id), warning)
    for (const name of ['a', 'b']) writeFileSync(join(project.deployPath, name), 'by hand')
    rmSync(join(project.deployPath, 'c'))
    const second = await stage.deploy(project, { a: 'two', b: 'by hand', c: 'two' })
    t.equal(second.status, 'success')
    const found = [...(await stage.output(second.id)).matchAll(warning)].map(([, path, id]) => [path, id])
    t.strictSame(found, [['a', first.id]], 'neither the removed file, nor the one whose edit is deployed')
    const third = await stage.deploy(project, { a: 'three' })
    t.notMatch(await stage.output(third.id), warning)
  })

  t.test('the policy refuse stops the deployment, and the policy off says nothing', async t => {
    const project = await stage.addProject({ policy: { drift: 'refuse' } })
    await stage.deploy(project, { a: 'one', b: 'one' })
    t.equal((await stage.deploy(project, { a: 'two' })).status, 'success', 'nothing was edited')
    writeFileSync(join(project.deployPath, 'a'), 'by hand')
    const before = snapshot(project.deployPath)
    const refused = await stage.deploy(project, { a: 'three', b: 'three' })
    t.match(refused, { status: 'failed', errorMessage: /Nothing was changed: "a" was edited on the server/ })
    t.strictSame(snapshot(project.deployPath), before)
    t.equal((await stage.deploy(project, { b: 'four' })).status, 'success', 'the edited file is not in this archive')
    await stage.change(project, { policy: { drift: 'off' } })
    const off = await stage.deploy(project, { a: 'five' })
    t.equal(off.status, 'success')
    t.notMatch(await stage.output(off.id), warning)
    t.equal(readFileSync(join(project.deployPath, 'a'), 'utf8'), 'five')
  })

  t.test('the report lists what was edited or removed', async t => {
    const project = await stage.addProject()
    const ask = (isFull = false) => stage.deployer.drift({ projectId: project.id, isFull, signal: never })
    t.match(await ask(), { baseline: 'none', count: 0, files: [] })
    const { id } = await stage.deploy(project, { a: 'one', b: 'one', c: 'one' })
    t.match(await ask(), { baseline: 'owned', partial: false, problem: null, count: 0 })
    writeFileSync(join(project.deployPath, 'a'), 'by hand')
    rmSync(join(project.deployPath, 'b'))
    writeFileSync(join(project.deployPath, 'mine'), 'not of svc')
    for (const isFull of [false, true]) {
      t.match(await ask(isFull), {
        count: 2,
        files: [
          { path: 'a', since: id, size: 7 },
          { path: 'b', found: null }
        ]
      })
    }
    rmSync(project.deployPath, { recursive: true })
    t.match(await ask(), { count: 3 }, 'the whole target is gone')
    await t.rejects(stage.deployer.drift({ projectId: 'proj_x', isFull: false, signal: never }), { code: 'not_found' })
  })
})

t.test('a tree that is not ready stops only a deployment that needs it', async t => {
  const stage = await deployStage(t)
  const trees: Pick<Trees, 'read'> = { read: async () => ({ baseline: 'building' }) }
  const needs = { store: stage.store, settings: { ...stage.settings, number: () => 1 }, trees }
  const ask = (policy: PolicyChanges, force = false) => {
    const project = aProject({ policy })
    return ownershipOf(needs, project, { ...wishesOf(project), force })
  }
  t.match(await ask({ drift: 'off' }), { tree: null, edited: 'ignore', removes: null, before: { maxBytes: 2 ** 20 } })
  t.match(await ask({ drift: 'warn', exact: 'required' }), { edited: 'warn', before: { isRequired: true } })
  t.match(await ask({ drift: 'refuse' }, true), { edited: 'warn' })
  const notReady = { kind: 'unavailable', code: 'tree_not_ready' }
  await t.rejects(ask({ drift: 'refuse' }), notReady)
  await t.rejects(ask({ drift: 'off', prune: 'managed' }), notReady)
})

t.test('the lines end with a count', t => {
  const files = [{ path: 'a\nb', since: 'dep_1' }]
  const none = { count: 0, files: [] }
  const [loud, silent] = [aProject(), aProject({ policy: { drift: 'off' } })]
  t.strictSame(linesOfEdits({ replaced: none, kept: none }, loud), [])
  t.strictSame(linesOfEdits({ replaced: null, kept: null }, loud), [])
  const [first, more] = linesOfEdits({ replaced: { count: 3, files }, kept: none }, loud)
  t.match(more, /replaced 2 more files/)
  t.notMatch(first, /\n/)
  t.strictSame(linesOfEdits({ replaced: { count: 3, files }, kept: none }, silent), [])
  t.match(linesOfEdits({ replaced: none, kept: { count: 1, files } }, silent), [/^→ kept .* after deployment dep_1$/])
  t.match(linesOfEdits({ replaced: none, kept: { count: 1, files: [{ path: 'a', since: '' }] } }, loud), [
    /did not put/
  ])
  t.end()
})

const plan = (bytes = 8, liveId: string | null = null): KeptPlan => ({
  projectId: 'proj_1',
  liveId,
  prune: 'off',
  force: false,
  pruned: 0,
  expected: {
    plannedAtMs: 0,
    marks: new Uint8Array(bytes),
    foundSha256: '',
    digits: 64,
    wantedSha256: '',
    contentsSha256: '',
    removedSha256: '',
    removedMarks: new Uint8Array()
  }
})

t.test('keeps plans for fifteen minutes', async t => {
  let now = 0
  const plans = createKeptPlans(() => now)
  const kept = plan()
  t.equal(plans.keep('plan_1', kept), 15 * 60_000)
  now = 15 * 60_000 - 1
  t.match(plans.find('plan_1'), kept)
  now++
  t.equal(plans.find('plan_1'), undefined)
})

t.test('drops the oldest plans above a number, and above a size', async t => {
  const plans = createKeptPlans(() => 0)
  for (let i = 0; i < 65; i++) plans.keep(`plan_${i}`, plan())
  t.equal(plans.find('plan_0'), undefined)
  t.ok(plans.find('plan_1'))
  const large = 9 * 1024 * 1024
  plans.keep('large_1', plan(large))
  plans.keep('large_2', plan(large))
  t.equal(plans.find('large_1'), undefined)
  t.equal(plans.find('plan_64'), undefined)
  t.ok(plans.find('large_2'), 'the newest plan is kept, whatever its size')
})

t.test('a plan is outdated after another deployment', async t => {
  t.doesNotThrow(() => refuseOtherLive(plan(8, 'dep_1'), 'dep_1'))
  t.doesNotThrow(() => refuseOtherLive(plan(8, null), null))
  t.throws(() => refuseOtherLive(plan(8, 'dep_1'), 'dep_2'), { code: 'plan_outdated', message: 'deployment dep_2' })
  t.throws(() => refuseOtherLive(plan(8, 'dep_1'), null), { code: 'plan_outdated' })
})
