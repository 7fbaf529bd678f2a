import t from 'tap'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { isRunning } from '../support/processes.js'
import { until } from '../support/until.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import { contentsOf } from '../support/held.js'

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
  await until(() => stage.row(run.deployId).heldFor === 'confirm')
  const { holdUntil, status } = stage.row(run.deployId)
  t.equal(status, 'running')
  t.equal(holdUntil, stage.deployer.confirmUntil(run.deployId))
  const next = await stage.push(project, { 'a.txt': '2' })
  t.match(await stage.output(next.deployId), 'queued: 1 deployment of this project ahead')
  const row = await stage.deployer.confirm(run.deployId, admin)
  t.match(row, { status: 'success', placed: 1, heldFor: null, confirmSeconds: 60 })
  t.match(
    stage.audits.find(({ action }) => action === 'deployment.confirm'),
    { target: run.deployId, ok: true }
  )
  t.equal((await next.finished).status, 'success')
  await t.rejects(stage.deployer.confirm(run.deployId, admin), { code: 'not_waiting' })
  await t.rejects(stage.deployer.revert(run.deployId, admin), { code: 'not_waiting' })
  await t.rejects(stage.deployer.confirm('dep_unknown', admin), { code: 'not_found' })
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
