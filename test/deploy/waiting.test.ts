import t from 'tap'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { recordProgress } from '../../lib/deploy/record.js'
import { linesOfWait } from '../../lib/deploy/user-actions.js'
import { defaultApproval } from '../../lib/model/policy.js'
import { findQueuedRelease } from '../../lib/core/store/tables/fleet.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { until } from '../support/until.js'

const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString()
const ended = (stage: DeployStage, id: string) => until(() => ['success', 'failed'].includes(stage.row(id).status))
const ben = { name: 'token:ben', ip: null, role: 'operator', token: { id: 'tok_ben', name: 'ben' } }

t.test('a deployment begins at its time, and others of its project go ahead', async t => {
  const stage = await deployStage(t)
  const shop = await stage.addProject()
  const startAt = inMs(3000)
  const run = await stage.push(shop, { 'b.txt': 'late' }, { startAt })
  t.match(run, { heldFor: 'schedule' })
  t.match(stage.row(run.deployId), { status: 'queued', heldFor: 'schedule', holdUntil: startAt, startAt })
  t.equal(stage.deployer.countAhead(shop.id), 0)
  t.match(await stage.deploy(shop, { 'a.txt': '1' }), { status: 'success' }, 'it does not wait in the queue')
  await ended(stage, run.deployId)
  t.match(stage.row(run.deployId), { status: 'failed', errorMessage: /is older than dep_/ }, 'a later release is there')
})

t.test('a deployment that begins at its time has the scripts and variables of its push', async t => {
  const stage = await deployStage(t)
  const shop = await stage.addProject()
  const run = await stage.push(
    shop,
    { 'a.txt': '1' },
    { startAt: inMs(3000), postDeploy: 'echo "$TEXT" > said', env: { TEXT: 'geheim' } }
  )
  await ended(stage, run.deployId)
  const row = stage.row(run.deployId)
  t.match(row, { status: 'success', heldFor: null, holdUntil: null })
  t.ok(row.endTime && row.startAt && row.endTime >= row.startAt)
  t.equal(await readFile(join(shop.deployPath, 'said'), 'utf8'), 'geheim\n')
  t.equal(findQueuedRelease(stage.store, run.deployId), undefined, 'they are not kept')
})

t.test('a restart keeps what waits, with what the client sent, encrypted', async t => {
  const first = await deployStage(t)
  const shop = await first.addProject({ policy: { approval: defaultApproval } })
  const request = { postDeploy: 'echo "$TEXT" > said', env: { TEXT: 'geheim' } }
  const run = await first.push(shop, { 'a.txt': '1' }, { ...request, startAt: inMs(60_000) })
  t.notMatch(JSON.stringify(findQueuedRelease(first.store, run.deployId)), 'geheim')
  const second = await first.restart()
  t.match(second.row(run.deployId), { status: 'queued', heldFor: 'approval' })
  t.match(await second.output(run.deployId), 'the server was restarted; the deployment still waits')
  t.match(await second.deployer.planWaiting(run.deployId, never), { counts: { added: 1 }, problem: null })
  const treeSha256 = second.row(run.deployId).treeSha256 as string
  t.match(await second.deployer.approve(run.deployId, { actor: ben, treeSha256 }), { heldFor: 'schedule' })
  t.notOk(existsSync(shop.deployPath), 'now it waits for its time')
  await second.store.write(tx => recordProgress(tx, run.deployId, { holdUntil: inMs(-1000) }))
  const third = await second.restart()
  await ended(third, run.deployId)
  t.match(third.row(run.deployId), { status: 'success', approvals: [{ name: 'token:ben' }] })
  t.equal(await readFile(join(shop.deployPath, 'said'), 'utf8'), 'geheim\n')
})

t.test('an approved deployment that was in the queue at a kill is queued again', async t => {
  const first = await deployStage(t)
  const shop = await first.addProject({ policy: { approval: defaultApproval } })
  const run = await first.push(shop, { 'a.txt': '1' })
  const patch = { approvals: [{ ...(await approvalOf(first, run.deployId)) }], heldFor: null, holdUntil: null }
  await first.store.write(tx => recordProgress(tx, run.deployId, patch))
  const second = await first.restart()
  await ended(second, run.deployId)
  t.match(second.row(run.deployId), { status: 'success' })
})

const approvalOf = async (stage: DeployStage, id: string) => ({
  decision: 'approved' as const,
  name: 'token:ben',
  tokenId: 'tok_ben',
  at: inMs(0),
  comment: null,
  treeSha256: stage.row(id).treeSha256
})

t.test('without a decision in time it fails, and nothing is written', async t => {
  const first = await deployStage(t)
  const shop = await first.addProject({ policy: { approval: defaultApproval } })
  const run = await first.push(shop, { 'a.txt': '1' })
  await first.store.write(tx => recordProgress(tx, run.deployId, { holdUntil: inMs(-1) }))
  const stage = await first.restart()
  await ended(stage, run.deployId)
  t.match(stage.row(run.deployId), { status: 'failed', errorMessage: /^Nobody approved the deployment before / })
  t.notOk(existsSync(shop.deployPath))
  await until(() => stage.notices.at(-1)?.event === 'deploy_failure')
})

t.test('a time that a stopped server has missed by more than an hour does not begin', async t => {
  const first = await deployStage(t)
  const shop = await first.addProject()
  const run = await first.push(shop, { 'a.txt': '1' }, { startAt: inMs(60_000) })
  await first.store.write(tx => recordProgress(tx, run.deployId, { holdUntil: inMs(-61 * 60_000) }))
  const stage = await first.restart()
  await ended(stage, run.deployId)
  t.match(stage.row(run.deployId), { status: 'failed', errorMessage: /^The server did not run at .* Push again$/ })
  t.notOk(existsSync(shop.deployPath))
})

t.test('a stop leaves what waits, and a cancellation ends it', async t => {
  const first = await deployStage(t)
  const shop = await first.addProject()
  const run = await first.push(shop, { 'a.txt': '1' }, { startAt: inMs(60_000) })
  await first.deployer.stop({ wait: true })
  t.match(await run.finished, { status: 'queued' }, 'the client asks again')
  const stage = await first.restart()
  t.match(await stage.deployer.cancel(run.deployId, admin), {
    status: 'failed',
    heldFor: null,
    errorMessage: /^Cancelled/
  })
  t.notOk(existsSync(shop.deployPath))
  t.equal(stage.deployer.hasRunning(shop.id), false)
})

t.test('a time that has passed, or is too far ahead, is refused', async t => {
  const stage = await deployStage(t)
  const shop = await stage.addProject()
  await t.rejects(stage.push(shop, {}, { startAt: inMs(-1000) }), { code: 'invalid_field', message: /has passed$/ })
  const far = inMs(31 * 86_400_000)
  await t.rejects(stage.push(shop, {}, { startAt: far }), { code: 'invalid_field', message: /at most 30 days/ })
  const freeze = [{ from: '2000-01-01', to: '2999-01-01', reason: 'audit' }]
  await stage.change(shop, { policy: { windows: { allow: [], freeze, tz: 'UTC' } } })
  await t.rejects(
    stage.push(shop, {}, { startAt: inMs(60_000) }),
    { code: 'outside_window' },
    'the window of that time'
  )
})

t.test('the output says what it waits for', async t => {
  const at = { id: 'dep_a', holdUntil: '2030-01-02T03:04:05.000Z' }
  t.strictSame(linesOfWait({ ...at, heldFor: 'schedule' }, null), [
    '→ begins at 2030-01-02 03:04 UTC; "svc cancel dep_a" cancels it'
  ])
  const approval = { count: 2, roles: ['operator' as const, 'admin' as const], notPusher: true, hours: 24 }
  t.strictSame(linesOfWait({ ...at, heldFor: 'approval' }, approval), [
    '→ waits for 2 approvals by somebody else with the role operator or admin until 2030-01-02 03:04 UTC, and fails then: svc approve dep_a'
  ])
  t.strictSame(linesOfWait({ ...at, heldFor: null }, approval), [])
})
