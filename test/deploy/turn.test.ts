import t from 'tap'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { deployStage } from '../support/deploy-stage.js'
import { isRunning } from '../support/processes.js'
import { until } from '../support/until.js'

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
