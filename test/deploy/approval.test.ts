import t from 'tap'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { PolicyChanges } from '../../lib/model/policy.js'
import type { Actor } from '../../lib/model/audit.js'
import { defaultApproval } from '../../lib/model/policy.js'
import { insertLock } from '../../lib/core/store/tables/locks.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { zipOf } from '../support/zips.js'

const named = (name: string, role: string): Actor => ({
  name: `token:${name}`,
  ip: null,
  role,
  token: { id: `tok_${name}`, name }
})
const ana = named('ana', 'operator')
const ben = named('ben', 'operator')
const eve = named('eve', 'operator')
const dan = named('dan', 'deployer')

async function heldStage(t: Test, approval: NonNullable<PolicyChanges['approval']> = defaultApproval) {
  const stage = await deployStage(t)
  const shop = await stage.addProject({ policy: { approval } })
  const push = (files: Record<string, string> = { 'a.txt': 'one' }, actor = ana) => stage.push(shop, files, { actor })
  const tree = (id: string): string => stage.row(id).treeSha256 as string
  const approve = (stage: DeployStage, id: string, actor = ben) =>
    stage.deployer.approve(id, { actor, treeSha256: tree(id) })
  return { stage, shop, push, tree, approve }
}

t.test('a release waits for an approval, and begins with it', async t => {
  const { stage, shop, push, tree } = await heldStage(t)
  const run = await push()
  t.match(run, { heldFor: 'approval' })
  const row = stage.row(run.deployId)
  t.match(row, { status: 'queued', heldFor: 'approval', treeSha256: /^[0-9a-f]{64}$/, approvals: [] })
  const hours = (Date.parse(row.holdUntil as string) - Date.parse(row.startTime)) / 3_600_000
  t.ok(Math.abs(hours - 24) < 0.1, 'for a day')
  t.match(stage.notices, [{ trigger: 'approval', event: 'deploy_waiting', deployment: { id: run.deployId } }])
  t.notOk(existsSync(shop.deployPath), 'nothing is in the target')
  t.match(await stage.deployer.planWaiting(run.deployId, never), {
    counts: { added: 1 },
    paths: { added: ['a.txt'] },
    problem: null,
    to: { deployId: run.deployId, treeSha256: tree(run.deployId) }
  })
  const approved = await stage.deployer.approve(run.deployId, {
    actor: ben,
    comment: 'looks good',
    treeSha256: tree(run.deployId)
  })
  t.match(approved, { heldFor: null, holdUntil: null })
  const final = await run.finished
  t.match(final, {
    status: 'success',
    approvals: [
      { decision: 'approved', name: 'token:ben', tokenId: 'tok_ben', comment: 'looks good', treeSha256: row.treeSha256 }
    ]
  })
  t.strictSame(stage.row(run.deployId), final)
  t.equal(await readFile(join(shop.deployPath, 'a.txt'), 'utf8'), 'one')
  t.match(
    stage.audits.find(({ action }) => action === 'deployment.approve'),
    {
      actor: ben,
      target: run.deployId,
      detail: `tree ${row.treeSha256}: looks good`
    }
  )
  const output = await stage.output(run.deployId)
  t.match(output, `svc approve ${run.deployId}`)
  t.match(output, /approved \(1 of 1\) by .*ben.*: looks good/)
  t.match(output, '✓ success')
})

t.test('an approval that the policy does not allow is refused, and the deployment waits on', async t => {
  const { stage, push, approve, tree } = await heldStage(t)
  const { deployId } = await push()
  await t.rejects(approve(stage, deployId, ana), { code: 'own_push' })
  await t.rejects(approve(stage, deployId, dan), { code: 'not_an_approver', message: /needs the role operator/ })
  await t.rejects(stage.deployer.reject(deployId, { actor: dan }), { code: 'not_an_approver' })
  const other = { actor: ben, treeSha256: '0'.repeat(64) }
  await t.rejects(stage.deployer.approve(deployId, other), { code: 'tree_differs' })
  const unknown = stage.deployer.approve('dep_unknown', { actor: ben, treeSha256: '' })
  await t.rejects(unknown, { code: 'not_found' })
  t.match(stage.row(deployId), { status: 'queued', heldFor: 'approval', approvals: [] })
  t.notOk(
    stage.audits.some(({ action }) => action === 'deployment.approve'),
    'nothing was recorded'
  )
  const local = { name: 'local', ip: null, role: 'local' }
  await stage.deployer.approve(deployId, { actor: local, treeSha256: tree(deployId) })
})

t.test('deployers approve, and the pusher too, if the policy says so', async t => {
  const { stage, push, approve } = await heldStage(t, { ...defaultApproval, roles: ['deployer'], notPusher: false })
  const run = await push({ 'a.txt': '1' }, dan)
  await approve(stage, run.deployId, dan)
  t.match(await run.finished, { status: 'success' })
})

t.test('a rejection fails the deployment with its reason, and nothing is written', async t => {
  const { stage, shop, push, approve } = await heldStage(t)
  const run = await push()
  const final = await stage.deployer.reject(run.deployId, { actor: ben, comment: 'not on a Friday' })
  t.match(final, {
    status: 'failed',
    errorMessage: /Rejected by .*ben.*: not on a Friday/,
    heldFor: null,
    approvals: [{ decision: 'rejected', name: 'token:ben', treeSha256: null }]
  })
  t.strictSame(await run.finished, final)
  t.notOk(existsSync(shop.deployPath))
  await t.rejects(approve(stage, run.deployId, eve), { code: 'already_decided', message: /rejected by ben/ })
  t.match(stage.notices.at(-1), { event: 'deploy_failure' })
})

t.test('of two that approve at once, one does', async t => {
  const { stage, push, approve } = await heldStage(t)
  const run = await push()
  const results = await Promise.allSettled([approve(stage, run.deployId, ben), approve(stage, run.deployId, eve)])
  t.strictSame(results.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  const [refused] = results.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))
  t.match(refused, { code: 'already_decided' })
  t.match(await run.finished, { status: 'success' })
  t.equal(stage.row(run.deployId).approvals.length, 1)
})

t.test('two approvals are those of two', async t => {
  const { stage, push, approve } = await heldStage(t, { ...defaultApproval, count: 2 })
  const run = await push()
  t.match(await approve(stage, run.deployId, ben), { heldFor: 'approval' })
  await t.rejects(approve(stage, run.deployId, ben), { code: 'already_decided', message: /you have/ })
  t.match(await approve(stage, run.deployId, eve), { heldFor: null })
  t.match(await run.finished, { status: 'success' })
  t.match(await stage.output(run.deployId), /approved \(1 of 2\)[^]*approved \(2 of 2\)/)
})

t.test('what goes back, or repairs, needs no approval', async t => {
  const { stage, shop, push, approve } = await heldStage(t)
  for (const text of ['one', 'two']) {
    const run = await push({ 'a.txt': text })
    await approve(stage, run.deployId)
    t.match(await run.finished, { status: 'success' })
  }
  t.match(await (await stage.deployer.undo(shop.id, { actor: ana })).finished, { status: 'success' })
  await stage.deployer.ownedTree(shop.id)
  await writeFile(join(shop.deployPath, 'a.txt'), 'edited')
  const repair = await stage.deployer.repair(shop.id, { actor: ana, signal: never })
  t.match(await repair.finished, { status: 'success', approvals: [] })
})

t.test('the last approval is refused while the project is locked, or outside of its windows', async t => {
  const { stage, shop, push, approve } = await heldStage(t)
  const { deployId, finished } = await push()
  const now = new Date().toISOString()
  const later = new Date(Date.now() + 60_000).toISOString()
  const lock = { projectId: shop.id, kind: 'lock' as const, owner: 'token:ana', reason: 'audit', createdAt: now }
  await stage.store.write(tx => insertLock(tx, { ...lock, expiresAt: later }))
  await t.rejects(approve(stage, deployId), { code: 'locked' })
  await stage.store.write(tx => tx.run('DELETE FROM locks'))
  const freeze = [{ from: '2000-01-01', to: '2999-01-01', reason: 'audit' }]
  await stage.change(shop, { policy: { approval: defaultApproval, windows: { allow: [], freeze, tz: 'UTC' } } })
  await t.rejects(approve(stage, deployId), { code: 'outside_window' })
  t.match(stage.row(deployId), { status: 'queued', heldFor: 'approval', approvals: [] })
  await stage.change(shop, { policy: { approval: defaultApproval } })
  await approve(stage, deployId)
  t.match(await finished, { status: 'success' })
})

t.test('a release that waited does not replace a later one', async t => {
  const { stage, push, approve } = await heldStage(t)
  const [older, newer] = [await push({ 'a.txt': 'old' }), await push({ 'a.txt': 'new' })]
  await approve(stage, newer.deployId)
  t.match(await newer.finished, { status: 'success' }, 'others go ahead')
  t.match(await stage.deployer.planWaiting(older.deployId, never), { problem: { code: 'superseded' } })
  await t.rejects(approve(stage, older.deployId), { code: 'superseded' })
  await stage.deployer.cancel(older.deployId, admin)
  t.match(await older.finished, { status: 'failed' })
})

t.test('a release is judged again when it begins', async t => {
  const { stage, shop, push } = await heldStage(t)
  await stage.change(shop, { policy: {} })
  const startAt = new Date(Date.now() + 900).toISOString()
  const run = await stage.push(shop, { 'a.txt': '1' }, { actor: ana, startAt })
  await stage.change(shop, { policy: { approval: defaultApproval } })
  const tick = setInterval(() => {}, 50)
  t.match(await run.finished, { status: 'failed', errorMessage: /needs 1 approval, and deployment dep_\w+ has 0/ })
  clearInterval(tick)
  t.ok(await push())
})

t.test('an archive that was exchanged is not what was approved', async t => {
  const { stage, shop, push, approve } = await heldStage(t)
  const run = await push()
  await writeFile(join(stage.home.deployments, `${run.deployId}.zip`), await zipOf({ 'a.txt': 'other' }))
  await approve(stage, run.deployId)
  t.match(await run.finished, { status: 'failed', errorMessage: /not the one that was approved/ })
  t.notOk(existsSync(shop.deployPath))
})
