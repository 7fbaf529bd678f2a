import t from 'tap'
import type { Test } from 'tap'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { isRunning } from '../support/processes.js'
import { until } from '../support/until.js'
import type { Project } from '../../lib/model/project.js'
import { contentsOf, stepsOf } from '../support/held.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'

t.test('scripts get their environment without the secrets of the server', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ env: 'staging', name: 'A "quoted" name' })
  const env = { GREETING: 'hello world', PATH: '/nowhere', SVC_ENV: 'fake', LD_PRELOAD: '/x.so' }
  const row = await stage.deploy(project, { 'a.txt': '1' }, { preDeploy: 'env; pwd', env })
  const output = await stage.output(row.id)
  for (const line of [
    'GREETING=hello world',
    'INHERITED=yes',
    `SVC_PROJECT_ID=${project.id}`,
    'SVC_PROJECT_NAME=A "quoted" name',
    'SVC_ENV=staging',
    `SVC_DEPLOY_ID=${row.id}`,
    `SVC_DEPLOY_PATH=${project.deployPath}`,
    'SVC_DEPLOY_MODE=deploy',
    project.deployPath
  ])
    t.ok(output.includes(`\n${line}\n`), line)
  t.match(output, '→ not passed to the scripts: "PATH", "SVC_ENV", "LD_PRELOAD" (a client may never set it)')
  t.notMatch(output, /hunter2|^ADMIN_TOKEN|^SVC_HOME|x\.so|=fake/m)
})

t.test('stops a script over its time limit with all its processes', async t => {
  const stage = await deployStage(t)
  stage.values.script_timeout = 1.5
  const project = await stage.addProject({ preDeployScript: 'sleep 60 & echo $! > pid; wait' })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  t.match(row, {
    status: 'failed',
    errorMessage: 'The pre-deploy script was stopped: it ran longer than 1.5 s (setting script_timeout)'
  })
  const pid = Number(await readFile(join(project.deployPath, 'pid'), 'utf8'))
  t.notOk(isRunning(pid))
})

t.test('the record shows the running step', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 9' })
  const run = await stage.push(project, { 'a.txt': '1' })
  await until(() => stage.row(run.deployId).steps.length === 3)
  t.match(stage.row(run.deployId), {
    status: 'running',
    endTime: null,
    duration: null,
    steps: [{}, { status: 'success' }, { name: 'preDeploy', status: 'running', endedAt: null }]
  })
  t.ok(stage.deployer.hasRunning(project.id))
  await stage.deployer.cancel(run.deployId, { name: 'admin', ip: null })
  t.notOk(existsSync(join(project.deployPath, 'a.txt')))
})

t.test('an old project with a system path as its target does not deploy there', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ deployPath: '/etc/cron.d/svc-test-closed' })
  const row = await stage.deploy(project, { job: '* * * * * root true' })
  t.match(row, { status: 'failed', errorMessage: /--allow-system-paths/ })
  t.notOk(existsSync(project.deployPath))
})

const killer = fileURLToPath(new URL('../support/killed-deploy.js', import.meta.url))
const script = 'echo "[$SVC_FAILURE] $SVC_DEPLOY_ID: $SVC_FAILURE_REASON"; echo "again $SVC_DEPLOY_ID" >> "$LOG"'

/** Returns a stage and how often the script has run. */
async function failing(t: Test, policy: object = {}) {
  const stage = await deployStage(t)
  const log = join(stage.directory, 'log')
  stage.ownVariables.push({ name: 'LOG', value: log, secret: false, scope: 'scripts' } as never)
  const project = await stage.addProject({ policy: { onFailureScript: script, ...policy } })
  return { stage, project, ran: async () => (await readFile(log, 'utf8').catch(() => '')).split('\n').length - 1 }
}

t.test('the script runs after a failure, knows why, and changes no result', async t => {
  const { stage, project, ran } = await failing(t, { onFailureScript: `${script}; exit 3` })
  t.match(await stage.deploy(project, { a: '1' }), { status: 'success' })
  t.equal(await ran(), 0, 'not after a success')
  const row = await stage.deploy(project, { a: '2' }, { postDeploy: 'exit 7' })
  t.match(row, { status: 'failed', errorMessage: 'The post-deploy script ended with exit code 7' })
  t.strictSame(stepsOf(stage, row.id).slice(4), ['postDeploy failed', 'onFailure failed', 'cleanup success'])
  const output = await stage.output(row.id)
  t.match(output, `[failed] ${row.id}: The post-deploy script ended with exit code 7\n`)
  t.match(output, '✗ The on-failure script ended with exit code 3\n')
  t.match(output, /✗ failed after .*: The post-deploy script ended with exit code 7\n$/)
  t.match(row.scripts.at(-1), { step: 'onFailure', source: 'platform' })
  const early = await stage.deploy(project, { a: '3' }, { preDeploy: 'exit 8' })
  t.match(await stage.output(early.id), `[failed] ${early.id}: The pre-deploy script ended with exit code 8\n`)
  t.equal(await ran(), 2)
})

t.test('it runs after a revert, on the files that are back', async t => {
  const { stage, project } = await failing(t, {
    onFailureScript: 'echo "[$SVC_FAILURE] $(cat a) $SVC_FAILURE_REASON"',
    onPostFailure: 'revert'
  })
  await stage.deploy(project, { a: '1' })
  const row = await stage.deploy(project, { a: '2' }, { postDeploy: 'test "$SVC_DEPLOY_MODE" = revert' })
  t.match(
    await stage.output(row.id),
    /\n\[reverted\] 1 The post-deploy script ended with exit code 1; the earlier files are back/
  )
  await stage.change(project, { policy: { onFailureScript: 'echo "[$SVC_FAILURE]"', confirm: { seconds: 0.3 } } })
  const late = await stage.deploy(project, { a: '3' })
  t.match(await stage.output(late.id), '\n[reverted]\n')
  t.equal(await contentsOf(project, 'a'), '1')
})

t.test('cancelling a deployment runs it, cancelling a queued one does not', async t => {
  const { stage, project, ran } = await failing(t)
  const run = await stage.push(project, { a: '1' }, { postDeploy: 'sleep 60' })
  const queued = await stage.push(project, { a: '2' })
  await until(() => stage.row(run.deployId).steps.some(({ name }) => name === 'postDeploy'))
  await stage.deployer.cancel(queued.deployId, admin)
  t.match(await stage.deployer.cancel(run.deployId, admin), { status: 'failed', errorMessage: 'Cancelled by admin' })
  t.equal(await ran(), 1)
})

/** Deploys in a process that dies at `how`. Returns the next stage, and the record when it is final. */
async function killed(stage: DeployStage, project: Project, how: 'recording' | 'script') {
  await stage.store.close()
  const words = [killer, stage.directory, project.id, '{"a":"2"}', ...(how === 'script' ? ['later'] : [])]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  let id = ''
  child.stdout?.on('data', (text: Buffer) => void (id += text.toString()))
  await once(child, 'close')
  const next = await deployStage(t, stage.directory)
  await until(() => next.row(id).status === 'failed')
  return { next, row: next.row(id) }
}

t.test('after a kill, the next start runs it once', async t => {
  for (const how of ['recording', 'script'] as const) {
    const own = 'echo "[$SVC_FAILURE] $SVC_FAILURE_REASON"'
    const { stage, project } = await failing(t, { onFailureScript: own })
    await stage.deploy(project, { a: '1' })
    if (how === 'script') await stage.change(project, { postDeployScript: 'kill -9 $PPID; sleep 60' })
    const { next, row } = await killed(stage, project, how)
    t.match(row, { errorMessage: deploySays.restartedWhileRunning, placed: 2 }, how)
    const output = await next.output(row.id)
    t.match(output, matching('→ the server was restarted; the deployment has failed\n'), how)
    t.match(output, matching('\n[failed] ', deploySays.restartedWhileRunning, '\n→ on-failure script ended'), how)
    t.equal(row.steps.filter(({ name }) => name === 'onFailure').length, 1)
    await next.change(project, { postDeployScript: '' })
    t.match(await next.deploy(project, { a: '3' }), { placed: 3 }, 'the next deployment begins')
    const last = await next.restart()
    t.equal(await last.output(row.id), output, 'another start leaves it alone')
  }
})

t.test('a kill while it runs keeps the reason, and it does not run again', async t => {
  const { stage, project } = await failing(t)
  const out = join(stage.directory, 'out')
  await stage.change(project, { policy: { onFailureScript: `echo x >> "${out}"; kill -9 $PPID; sleep 60` } })
  await stage.change(project, { postDeployScript: 'exit 7' })
  const { next, row } = await killed(stage, project, 'script')
  t.equal(row.errorMessage, 'The post-deploy script ended with exit code 7')
  t.match(stepsOf(next, row.id).at(-1), 'onFailure failed')
  t.equal(await readFile(out, 'utf8'), 'x\n')
})
