import t, { type Test } from 'tap'
import { existsSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { isRunning } from '../support/processes.js'
import { inTime, until } from '../support/until.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { contentsOf, leftIn, pushWaiting } from '../support/held.js'
import { type PolicyChanges, defaultApproval } from '../../lib/model/policy.js'
import type { Actor } from '../../lib/model/audit.js'
import { insertLock } from '../../lib/core/store/tables/projects.js'
import { zipOf } from '../support/zips.js'

/** Waits until a deployment has begun a step. */
async function inStep(stage: DeployStage, deployId: string, name: string): Promise<void> {
  await until(() => stage.row(deployId).steps.at(-1)?.name === name, { what: `${name} of ${deployId}` })
}

t.test('a cancellation stops the script with its processes and keeps the target', async t => {
  for (const step of ['preDeploy', 'postDeploy'] as const) {
    const stage = await deployStage(t)
    const script = 'echo begun; sleep 60 & echo $! > pid; wait'
    const project = await stage.addProject({ [`${step}Script`]: script })
    const run = await stage.push(project, { 'a.txt': '1' })
    await inStep(stage, run.deployId, step)
    await until(() => existsSync(join(project.deployPath, 'pid')))
    const row = await stage.deployer.cancel(run.deployId, admin)
    t.match(row, { status: 'failed', errorMessage: deploySays.cancelledBy('admin') }, step)
    t.strictSame(
      row.steps.slice(-2).map(({ name, status }) => `${name} ${status}`),
      [`${step} failed`, 'cleanup success']
    )
    t.strictSame(await run.finished, row)
    const pid = Number(await readFile(join(project.deployPath, 'pid'), 'utf8'))
    t.notOk(isRunning(pid))
    t.equal(existsSync(join(project.deployPath, 'a.txt')), step === 'postDeploy')
    t.match(await stage.output(run.deployId), matching(deploySays.failedAfter, deploySays.cancelledBy('admin'), /\n$/))
    t.match(stage.audits.at(-1), { action: 'deployment.cancel', actor: admin, target: run.deployId })
    t.match(stage.notices, [{ trigger: 'cli', event: 'deploy_failure', errorMessage: deploySays.cancelledBy('admin') }])
    t.strictSame(await readdir(stage.home.tmp), [])
  }
})

t.test('a cancellation during the extraction keeps the target', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const files = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`f${index}`, `${index}`]))
  const run = await stage.push(project, files)
  await inStep(stage, run.deployId, 'extract')
  const row = await stage.deployer.cancel(run.deployId, admin).catch((error: Error) => error)
  if (row instanceof Error) return t.comment('it was faster than the cancellation')
  t.match(row, { status: 'failed', errorMessage: deploySays.cancelledBy('admin') })
  t.strictSame(await readdir(project.deployPath), [])
})

t.test('a deployment cancelled in the queue never runs, and the others do', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 9' })
  const first = await stage.push(project, { 'a.txt': '1' })
  const second = await stage.push(project, { 'b.txt': '2' })
  const third = await stage.push(project, { 'c.txt': '3' })
  t.equal(stage.row(second.deployId).status, 'queued')
  const row = await stage.deployer.cancel(second.deployId, admin)
  t.match(row, {
    status: 'failed',
    errorMessage: deploySays.cancelledBy('admin'),
    steps: [{ name: 'store' }],
    hasArtifact: true
  })
  t.match(
    await stage.output(second.deployId),
    matching(deploySays.queuedBehind(1), deploySays.failedAfter, deploySays.cancelledBy('admin'), /\n$/)
  )
  await stage.change(project, { preDeployScript: '' })
  await inStep(stage, first.deployId, 'preDeploy')
  await stage.deployer.cancel(first.deployId, admin)
  t.equal((await third.finished).status, 'success')
  t.match(await stage.output(third.deployId), matching(deploySays.queuedBehind(2), deploySays.startedAfterQueue))
  t.strictSame(await readdir(project.deployPath), ['c.txt'])
  t.strictSame(await readdir(stage.home.tmp), [])
})

t.test('refuses to cancel a finished deployment and to mark a running one', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'a.txt': '1' })
  await t.rejects(stage.deployer.cancel(row.id, admin), { code: 'already_finished' })
  await t.rejects(stage.deployer.cancel('dep_none', admin), { code: 'not_found' })
  await t.rejects(stage.deployer.mark('dep_none', 'failed', { actor: admin }), { code: 'not_found' })
  await stage.change(project, { preDeployScript: 'exec sleep 9' })
  const run = await stage.push(project, { 'a.txt': '1' })
  const queued = await stage.push(project, { 'a.txt': '1' })
  await t.rejects(stage.deployer.mark(run.deployId, 'success', { actor: admin }), { code: 'not_finished' })
  await t.rejects(stage.deployer.mark(queued.deployId, 'success', { actor: admin }), {
    code: 'not_finished',
    message: /queued/
  })
})

t.test('marks a finished deployment, audits it and notifies', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const { id } = await stage.deploy(project, { 'a.txt': '1' })
  const cases = [
    { to: 'failed', from: 'success', errorMessage: 'Marked as failed by admin', event: 'deploy_failure' },
    { to: 'failed', from: 'failed', errorMessage: 'Marked as failed by admin', event: 'deploy_failure' },
    { to: 'success', from: 'failed', errorMessage: null, event: 'deploy_success' },
    { to: 'success', from: 'success', errorMessage: null, event: 'deploy_success' }
  ] as const
  for (const { to, from, errorMessage, event } of cases) {
    const row = await stage.deployer.mark(id, to, { actor: admin })
    t.match(row, { status: to, errorMessage })
    t.strictSame(stage.row(id), row)
    t.match(stage.notices.at(-1), { trigger: 'manual', event, errorMessage, deployment: { id, status: to } })
    t.match(stage.audits.at(-1), {
      action: 'deployment.mark_status',
      actor: admin,
      target: id,
      detail: `${from} → ${to}`
    })
    const { text } = await stage.deployer.readOutput(id)
    t.ok(text.endsWith(`→ Marked as ${to} by admin (it was ${from})\n`))
  }
})

t.test('a deployment is settled when it is confirmed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const run = await stage.push(project, { 'a.txt': '1' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  const { holdUntil, heldFor, status } = stage.row(run.deployId)
  t.equal(heldFor, 'confirm')
  t.equal(status, 'running')
  t.equal(holdUntil, stage.deployer.confirmUntil(run.deployId))
  const next = await stage.push(project, { 'a.txt': '2' })
  t.match(await stage.output(next.deployId), 'queued: 1 deployment of this project ahead')
  const row = await stage.deployer.confirm(run.deployId, admin)
  t.match(row, { status: 'success', placed: 1, heldFor: null, confirmSeconds: 60 })
  t.match(
    stage.audits.find(({ action }) => action === 'deployment.confirm'),
    { target: run.deployId, ok: undefined }
  )
  t.equal((await next.finished).status, 'success')
  await t.rejects(stage.deployer.confirm(run.deployId, admin), { code: 'not_waiting' })
  await t.rejects(stage.deployer.revert(run.deployId, admin), {
    code: 'not_waiting',
    message: matching(deploySays.revertTooLate)
  })
  await t.rejects(stage.deployer.confirm('dep_unknown', admin), { code: 'not_found' })
})

t.test(
  'a confirmation counts as soon as the record says that the deployment waits for it, also after a restart',
  async t => {
    const stage = await deployStage(t)
    const project = await stage.addProject()
    const saysSo = async ({ row }: DeployStage, id: string): Promise<void> => {
      while (row(id).heldFor !== 'confirm') await turn()
    }
    const first = await stage.push(project, { 'a.txt': '1' }, { confirmSeconds: 60 })
    await saysSo(stage, first.deployId)
    t.match(await stage.deployer.confirm(first.deployId, admin), { status: 'success' })
    const second = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
    await until(() => stage.deployer.confirmUntil(second.deployId) !== null)
    await stage.deployer.stop({ wait: false })
    const later = await stage.restart()
    t.match(await later.deployer.confirm(second.deployId, admin), { status: 'success' })
  }
)

t.test('a revert of what is not held says what to do instead', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'sleep 60' })
  const running = await stage.push(project, { 'a.txt': '1' })
  await inStep(stage, running.deployId, 'preDeploy')
  const queued = await stage.push(project, { 'a.txt': '2' })
  const refused = (message: string) => ({ code: 'not_waiting', message: matching(message) })
  await t.rejects(stage.deployer.revert(queued.deployId, admin), refused(deploySays.revertQueued))
  await t.rejects(stage.deployer.revert(running.deployId, admin), refused(deploySays.revertRunning))
  for (const { deployId } of [queued, running]) {
    t.equal((await stage.deployer.cancel(deployId, admin)).status, 'failed')
    await t.rejects(stage.deployer.revert(deployId, admin), refused(deploySays.revertNothing))
  }
})

t.test('an operator reverts a deployment that waits', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  const row = await stage.deployer.revert(run.deployId, admin)
  t.match(row, { status: 'failed', revertReason: 'operator', errorMessage: /^Reverted by admin; the earlier files/ })
  t.match(stage.audits.at(-1), { action: 'deployment.revert', ok: true })
  t.equal(await contentsOf(project), '1')
})

t.test('what users ask of a run is in the audit log exactly if it is in the record', async t => {
  const entries: Array<{ tx: unknown; action: string; ok: boolean | undefined }> = []
  let refused = ''
  const stage = await deployStage(
    t,
    undefined,
    {},
    {
      audit: ({ action }) => t.fail(`${action} follows its change`),
      auditWithin(tx, { action, ok }) {
        if (action === refused) throw new Error('the audit log is not writable')
        entries.push({ tx, action, ok })
      }
    }
  )
  const project = await stage.addProject()
  const waiting = async (): Promise<string> => {
    const { deployId } = await stage.push(project, { 'a.txt': '1' }, { confirmSeconds: 60 })
    await until(() => stage.deployer.confirmUntil(deployId) !== null)
    entries.length = 0
    return deployId
  }
  for (const doing of ['cancel', 'revert'] as const) {
    await stage.deployer[doing](await waiting(), admin)
    const [asked, end] = entries
    t.match([asked, end], [{ action: `deployment.${doing}`, ok: true }, { action: 'deployment.end' }])
    t.equal(asked?.tx, end?.tx, 'in one transaction')
  }
  const id = await waiting()
  refused = 'deployment.confirm'
  await t.rejects(stage.deployer.confirm(id, admin), { message: 'the audit log is not writable' })
  t.match(stage.row(id), { status: 'running', heldFor: 'confirm' }, 'what cannot be audited is not confirmed')
  refused = ''
  t.match(await stage.deployer.confirm(id, admin), { status: 'success' })
  t.strictSame(
    entries.map(({ action }) => action),
    ['deployment.confirm', 'deployment.end']
  )
  for (const doing of ['begin', 'end'] as const) {
    entries.length = 0
    const request = { projectId: project.id, actor: admin, force: false }
    if (doing === 'begin') await stage.deployer.maintenance.on({ ...request, reason: null })
    else await stage.deployer.maintenance.off({ ...request, mayEndOthers: true })
    t.match(entries, [{ action: `project.maintenance_${doing === 'begin' ? 'on' : 'off'}` }])
  }
})

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
  const startAt = new Date(Date.now() + 3000).toISOString()
  const run = await stage.push(shop, { 'a.txt': '1' }, { actor: ana, startAt })
  await stage.change(shop, { policy: { approval: defaultApproval } })
  const row = await inTime(run.finished)
  t.match(row, { status: 'failed', errorMessage: /needs 1 approval, and deployment dep_\w+ has 0/ })
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

t.test('a held deployment can be reverted and cancelled in the first moment after a restart', async t => {
  for (const act of ['revert', 'cancel'] as const) {
    let stage = await deployStage(t)
    const project = await stage.addProject()
    await stage.deploy(project, { 'a.txt': 'one' })
    const id = await pushWaiting(stage, project, { files: { 'a.txt': 'two' } })
    await stage.deployer.stop({ wait: false })
    stage = await stage.restart()
    const row = await stage.deployer[act](id, admin)
    t.match(row, { status: 'failed', revertReason: 'operator', revertedAt: /Z$/ }, act)
    t.equal(await contentsOf(project), 'one', act)
    t.strictSame(await leftIn(stage, project), [], act)
  }
})
