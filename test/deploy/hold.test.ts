import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { appendFile, readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { defaultGate } from '../../lib/model/gate.js'
import type { Check, Gate } from '../../lib/model/policy.js'
import type { Project } from '../../lib/model/project.js'
import { liveDeployment } from '../../lib/store/tables/deployments.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { until } from '../support/until.js'

/** A server that answers with the status in `answer`. */
async function statusServer(t: Test) {
  const state = { status: 200, requests: 0 }
  const server: Server = createServer((_, response) => {
    state.requests++
    response.writeHead(state.status).end('hello')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  return Object.assign(state, { url: `http://127.0.0.1:${port}/up` })
}

const gateOf = (after: Check[], patch: Partial<Gate> = {}): Gate => ({
  ...defaultGate,
  interval: 0.1,
  timeout: 1,
  deadline: 1,
  successes: 1,
  ...patch,
  after
})

const contentsOf = (project: Project, path = 'a.txt'): Promise<string> =>
  readFile(join(project.deployPath, path), 'utf8')

const stepsOf = (stage: DeployStage, id: string): string[] =>
  stage.row(id).steps.map(({ name, status }) => `${name} ${status}`)

async function leftIn(stage: DeployStage, project: Project): Promise<string[]> {
  const journals = (await readdir(stage.home.deployments)).filter(name => name.endsWith('.undo'))
  const staging = (await readdir(project.deployPath)).filter(name => name.startsWith('.svc'))
  return [...journals, ...staging]
}

t.test('a deployment whose checks pass is settled', async t => {
  const stage = await deployStage(t)
  const { url } = await statusServer(t)
  const project = await stage.addProject({
    policy: { gate: gateOf([{ http: url, contains: 'ello' }], { successes: 2 }) }
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
    policy: { gate: gateOf([{ http: server.url }]) },
    postDeployScript: 'echo "mode $SVC_DEPLOY_MODE: $(cat a.txt)"'
  })
  const first = await stage.deploy(project, { 'a.txt': '1' })
  server.status = 503
  const row = await stage.deploy(project, { 'a.txt': '2', 'new.txt': 'new' })
  t.match(row, { status: 'failed', revertReason: 'check', revertedAt: /Z$/, placed: null, heldFor: null })
  t.match(
    row.errorMessage,
    `The check ${server.url} failed: 503 within 1 s; the earlier files are back, ${first.id} is live`
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
  await stage.change(project, { policy: { gate: gateOf([{ http: url }]) } })
  t.match(await stage.deploy(project, { 'a.txt': '4' }), { status: 'failed', revertReason: null, placed: 2 })
  t.equal(await contentsOf(project), '4', 'a gate alone does not revert because of a script')
})

t.test('files that were edited meanwhile are kept and listed', async t => {
  const stage = await deployStage(t)
  const server = await statusServer(t)
  const project = await stage.addProject({
    policy: { gate: gateOf([{ http: server.url }]) },
    postDeployScript: 'echo edited >> a.txt; echo log > made.log'
  })
  await stage.deploy(project, { 'a.txt': '1' })
  server.status = 503
  const row = await stage.deploy(project, { 'a.txt': '2\n' })
  t.equal(row.revertReason, 'check')
  const directory = `.svc-displaced-${row.id}`
  t.match(await stage.output(row.id), `→ 1 file edited meanwhile kept in ${directory}: a.txt`)
  t.equal(await contentsOf(project, `${directory}/a.txt`), '2\nedited\n')
  t.equal(await contentsOf(project, 'made.log'), 'log\n')
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

t.test('a deployment that nobody confirms goes back', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ policy: { confirm: { seconds: 0.3 } } })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  t.match(row, { status: 'failed', revertReason: 'confirm', placed: null })
  t.match(row.errorMessage, /^Nobody confirmed the deployment within 0\.3 s; the earlier files are back$/)
  t.strictSame(await readdir(project.deployPath), [])
  await t.rejects(stage.deployer.confirm(row.id, admin), { code: 'too_late' })
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

t.test('a revert that fails is reported, and the next start tries again', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  const { rename } = await import('node:fs/promises')
  await rename(project.deployPath, `${project.deployPath}-away`)
  const row = await stage.deployer.revert(run.deployId, admin)
  t.match(row, { status: 'failed', revertReason: 'operator', revertedAt: null, placed: 2 })
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

t.test('the next deployment finishes a revert that failed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1', 'b.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2', 'b.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  const { rename } = await import('node:fs/promises')
  await rename(project.deployPath, `${project.deployPath}-away`)
  await stage.deployer.revert(run.deployId, admin)
  await rename(`${project.deployPath}-away`, project.deployPath)
  t.equal((await stage.deploy(project, { 'a.txt': '3' })).status, 'success')
  t.equal(await contentsOf(project, 'b.txt'), '1', 'the file before the reverted deployment')
  t.match(stage.row(run.deployId), { revertedAt: /Z$/, placed: null })
})

t.test('a stopping server leaves a deployment open, and the next start continues it', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.row(run.deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(run.deployId) !== null)
  await stage.deployer.stop({ wait: true })
  t.match(stage.row(run.deployId), { status: 'running', heldFor: 'confirm' })
  const restarted = await stage.restart()
  const { deployId } = run
  await until(() => restarted.deployer.confirmUntil(deployId) !== null)
  t.ok(
    Math.abs(
      Date.parse(restarted.deployer.confirmUntil(deployId) as string) -
        Date.parse(restarted.row(deployId).holdUntil as string)
    ) < 50
  )
  const row = await restarted.deployer.confirm(deployId, admin)
  t.match(row, { status: 'success', placed: 2 })
  t.strictSame(stepsOf(restarted, deployId), [
    'store success',
    'target success',
    'preDeploy skipped',
    'extract success',
    'postDeploy skipped',
    'confirm success',
    'cleanup success'
  ])
  t.equal(await contentsOf(project), '2')
  t.strictSame(await leftIn(restarted, project), [])
  t.strictSame(restarted.faults, [])
})

t.test('a start puts a deployment back whose time is over', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'echo "mode $SVC_DEPLOY_MODE"' })
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 1 })
  await until(() => stage.row(run.deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(run.deployId) !== null)
  await stage.deployer.stop({ wait: true })
  await appendFile(join(project.deployPath, 'a.txt'), ' edited')
  await until(() => Date.now() > Date.parse(stage.row(run.deployId).holdUntil as string))
  const restarted = await stage.restart()
  await until(() => restarted.row(run.deployId).status === 'failed')
  t.match(restarted.row(run.deployId), { revertReason: 'confirm', revertedAt: /Z$/, placed: null })
  t.match(await restarted.output(run.deployId), 'mode revert')
  t.equal(await contentsOf(project), '1')
  t.equal(await contentsOf(project, `.svc-displaced-${run.deployId}/a.txt`), '2 edited')
})
