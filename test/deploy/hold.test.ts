import t from 'tap'
import { appendFile, readdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { liveDeployment, pendingReverts } from '../../lib/core/store/tables/deployments.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { contentsOf, gateOf, leftIn, patient, statusServer, stepsOf } from '../support/held.js'
import { until } from '../support/until.js'
import { type HoldPlan, holdPlanOf, longestMs } from '../../lib/deploy/hold.js'
import { defaultGate, defaultPolicy } from '../../lib/model/policy.js'

t.test('a deployment whose checks pass is settled', async t => {
  const stage = await deployStage(t)
  const { url } = await statusServer(t)
  const project = await stage.addProject({
    policy: { gate: gateOf([{ http: url, contains: 'ello' }], { ...patient, successes: 2 }) }
  })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  t.match(row, { status: 'success', heldFor: null, holdUntil: null, revertedAt: null, revertReason: null, placed: 1 })
  t.match(row.checks, [{ check: url, ok: true, attempts: 2, message: '200' }])
  t.strictSame(stepsOf(stage, row.id).slice(3), [
    'extract success',
    'postDeploy skipped',
    'check success',
    'cleanup success'
  ])
  t.match(await stage.output(row.id), `→ check ${url}: passed (200)\n→ all checks passed`)
  t.strictSame(await leftIn(stage, project), [])
  t.strictSame(stage.faults, [])
})

t.test('a deployment whose check fails goes back, and the earlier one is live', async t => {
  const stage = await deployStage(t)
  const server = await statusServer(t)
  const project = await stage.addProject({
    policy: { gate: gateOf([{ http: server.url }], { timeout: 3, deadline: 3 }) },
    postDeployScript: 'echo "mode $SVC_DEPLOY_MODE: $(cat a.txt)"'
  })
  const first = await stage.deploy(project, { 'a.txt': '1' })
  server.status = 503
  const row = await stage.deploy(project, { 'a.txt': '2', 'new.txt': 'new' })
  t.match(row, { status: 'failed', revertReason: 'check', revertedAt: /Z$/, placed: null, heldFor: null })
  t.match(
    row.errorMessage,
    `The check ${server.url} did not pass within 3 s: 503; the earlier files are back, ${first.id} is live`
  )
  t.equal(await contentsOf(project), '1')
  t.strictSame(await readdir(project.deployPath), ['a.txt'])
  t.equal(liveDeployment(stage.store, project.id)?.id, first.id)
  t.strictSame(stepsOf(stage, row.id).slice(4), [
    'postDeploy success',
    'check failed',
    'revert success',
    'cleanup success'
  ])
  const output = await stage.output(row.id)
  t.match(output, 'mode deploy: 2')
  t.match(
    output,
    `→ the earlier files are back, ${first.id} is live\n→ post-deploy script (set on the server)\nmode revert: 1\n`
  )
  t.match(output, new RegExp(`✗ failed after .*; the earlier files are back, ${first.id} is live\n$`))
  t.match(stage.notices.at(-1), { event: 'deploy_failure', errorMessage: row.errorMessage })
  t.strictSame(await leftIn(stage, project), [])
  server.status = 200
  t.match(await stage.deploy(project, { 'a.txt': '3' }), { status: 'success', placed: 2 }, 'the next one')
  t.strictSame(stage.faults, [])
})

t.test('a failed check keeps the files if the policy says so', async t => {
  const stage = await deployStage(t)
  const server = await statusServer(t)
  server.status = 500
  const project = await stage.addProject({ policy: { gate: gateOf([{ http: server.url }], { onFailure: 'keep' }) } })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  t.match(row, { status: 'failed', revertReason: null, revertedAt: null, placed: 1 })
  t.match(await stage.output(row.id), 'stay in place')
  t.equal(await contentsOf(project), '1')
  t.strictSame(await leftIn(stage, project), [])
})

t.test('a failed post-deploy script puts the files back only if the policy says so', async t => {
  const stage = await deployStage(t)
  const script = 'echo "$SVC_DEPLOY_MODE"; test "$(cat a.txt)" = 1'
  const project = await stage.addProject({ postDeployScript: script, policy: { onPostFailure: 'revert' } })
  await stage.deploy(project, { 'a.txt': '1' })
  const row = await stage.deploy(project, { 'a.txt': '2' })
  t.match(row, { status: 'failed', revertReason: 'post', placed: null })
  t.match(await stage.output(row.id), '\nrevert\n→ post-deploy script ended with exit code 0')
  t.equal(await contentsOf(project), '1')
  await stage.change(project, { policy: { onPostFailure: 'revert', revertScript: 'none' } })
  const silent = await stage.deploy(project, { 'a.txt': '3' })
  t.match(silent, { status: 'failed', revertReason: 'post' })
  t.notMatch(await stage.output(silent.id), '\nrevert\n')
  const { url } = await statusServer(t)
  await stage.change(project, { policy: { gate: gateOf([{ http: url }], patient) } })
  t.match(await stage.deploy(project, { 'a.txt': '4' }), { status: 'failed', revertReason: null, placed: 2 })
  t.equal(await contentsOf(project), '4', 'a gate alone does not revert because of a script')
})

t.test('cancelling a deployment during its checks puts the files back', async t => {
  const stage = await deployStage(t)
  const server = await statusServer(t)
  const project = await stage.addProject({ policy: { gate: gateOf([{ http: server.url }], { deadline: 60 }) } })
  const first = await stage.deploy(project, { 'a.txt': '1' })
  server.status = 503
  const run = await stage.push(project, { 'a.txt': '2' })
  await until(() => server.requests > 3)
  const row = await stage.deployer.cancel(run.deployId, admin)
  t.match(row, { status: 'failed', revertReason: 'operator', placed: null })
  t.equal(row.errorMessage, `Cancelled by admin; the earlier files are back, ${first.id} is live`)
  t.equal(await contentsOf(project), '1')
})

t.test('a deployment that nobody confirms goes back', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { confirm: { seconds: 0.3 } } })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  t.match(row, { status: 'failed', revertReason: 'confirm', placed: null })
  t.match(row.errorMessage, /^Nobody confirmed the deployment within 0\.3 s; the earlier files are back$/)
  t.strictSame(await readdir(project.deployPath), [])
  await t.rejects(stage.deployer.confirm(row.id, admin), { code: 'too_late' })
})

const gate = { ...defaultGate, after: [{ tcp: 'a:1' }] }

t.test('a deployment is held only if the policy or the request says so', async t => {
  t.equal(holdPlanOf(defaultPolicy, null), null)
  t.equal(holdPlanOf({ ...defaultPolicy, gate: { ...gate, after: [] } }, null), null, 'no checks')
  t.match(holdPlanOf({ ...defaultPolicy, gate }, null), { gate, confirmSeconds: null, revertsOnPostFailure: false })
  t.match(holdPlanOf({ ...defaultPolicy, onPostFailure: 'revert' }, null), { revertsOnPostFailure: true })
  t.match(holdPlanOf({ ...defaultPolicy, confirm: { seconds: 90 } }, null), { confirmSeconds: 90 })
  t.match(holdPlanOf({ ...defaultPolicy, confirm: { seconds: 90 } }, 30), { confirmSeconds: 30 })
  t.match(holdPlanOf({ ...defaultPolicy, revertScript: 'none' }, 30), { runsRevertScript: false })
})

t.test('the upper bound of each phase contains the phases after it', async t => {
  const plan = holdPlanOf({ ...defaultPolicy, gate }, 90) as HoldPlan
  t.equal(longestMs(plan, 'confirm', 1000), 90_000)
  t.ok(longestMs(plan, 'check', 1000) >= (gate.deadline + gate.timeout + 90) * 1000)
  t.ok(longestMs(plan, 'post', 1000) > longestMs(plan, 'check', 1000) + 1000)
})

t.test('files that were edited meanwhile are kept and listed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    postDeployScript: 'test ! -e b.txt || echo script >> b.txt; echo log > made.log'
  })
  await stage.deploy(project, { 'a.txt': '1', 'b.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2\n', 'b.txt': '2\n' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  await appendFile(join(project.deployPath, 'a.txt'), 'edited\n')
  const row = await stage.deployer.revert(run.deployId, admin)
  t.equal(row.revertReason, 'operator')
  const directory = `.svc-displaced-${row.id}`
  t.match(await stage.output(row.id), `→ 1 file edited meanwhile kept in ${directory}: a.txt`)
  t.equal(await contentsOf(project, `${directory}/a.txt`), '2\nedited\n')
  t.equal(await contentsOf(project, 'made.log'), 'log\n')
})

t.test('a revert that fails is reported, and the next start tries again', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  await rename(project.deployPath, `${project.deployPath}-away`)
  const row = await stage.deployer.revert(run.deployId, admin)
  t.match(row, { status: 'failed', revertReason: 'operator', revertedAt: null, placed: 2 })
  t.strictSame(pendingReverts(stage.store), [row.id])
  t.match(row.errorMessage, /^Reverted by admin; the earlier files are not back yet: .* does not exist/)
  t.match(stage.audits.at(-2), { action: 'deployment.revert_failed', target: run.deployId, ok: false })
  await rename(`${project.deployPath}-away`, project.deployPath)
  const restarted = await stage.restart()
  t.match(restarted.row(run.deployId), { status: 'failed', revertReason: 'operator', revertedAt: /Z$/, placed: null })
  t.equal(await contentsOf(project), '1')
  t.match(await restarted.output(run.deployId), 'the earlier files are back after all')
  t.equal(liveDeployment(restarted.store, project.id)?.id, first.id)
  t.strictSame(await leftIn(restarted, project), [])
})
