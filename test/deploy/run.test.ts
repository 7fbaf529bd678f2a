import t from 'tap'
import { existsSync } from 'node:fs'
import { readFile, readdir } from 'node:fs/promises'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { failedInBackground, type DeploymentStep } from '../../lib/model/deployment.js'
import { deployStage, type DeployStage } from '../support/deploy-stage.js'
import { isRunning } from '../support/processes.js'

/** Waits until something is so, at most five seconds. */
async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 20_000; Date.now() < deadline; await sleep(10)) if (await isSo()) return
  throw new Error('It never was so')
}

const told = (stage: DeployStage): string[] =>
  stage.notices.map(({ trigger, event, errorMessage }) => `${trigger} ${event} ${errorMessage}`)

t.test('the states of §3: success, failed, and what the world is told', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const good = await stage.deploy(project, { 'a.txt': '1' }, { postDeploy: 'true' })
  t.equal(good.status, 'success')
  const bad = await stage.deploy(project, { 'a.txt': '2' }, { postDeploy: 'exit 1' })
  t.equal(bad.status, 'failed')
  const error = 'The post-deploy script ended with exit code 1'
  t.strictSame(told(stage), ['cli deploy_success null', `cli deploy_failure ${error}`])
  t.match(
    stage.notices[0],
    {
      project: { id: project.id, deployPath: project.deployPath },
      deployment: { id: good.id, status: 'success', duration: /s$/ }
    }
  )
  t.strictSame(
    stage.audits.map(({ action, target }) => [action, target]),
    [['deployment.upload', good.id], ['deployment.upload', bad.id]]
  )
  t.equal(await readFile(join(project.deployPath, 'a.txt'), 'utf8'), '2', 'a failed post-deploy script does not undo')
})

t.test('in the background: success at once, the output still comes', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployAsync: true })
  const request = {
    postDeploy: 'echo begin; while [ ! -e go ]; do sleep 0.02; done; cat "$SVC_CHANGES"; echo end',
    postDeployAsync: false
  }
  const row = await stage.deploy(project, { 'a.txt': '1' }, request)
  t.equal(row.status, 'success')
  t.match(row.scripts, [{ step: 'postDeploy', source: 'client', async: true }])
  t.match(
    await stage.output(row.id),
    /in the background \(forced by the server's setting of this project; the client's value is ignored\)/
  )
  t.notMatch(await stage.output(row.id), /^end$/m)
  t.notOk(stage.deployer.hasRunning(project.id), 'what is over is over')
  const step = (at: number): unknown => stage.row(row.id).steps[at]
  t.match(step(4), { name: 'postDeploy', status: 'running', endedAt: null, exitCode: null })

  const next = await stage.deploy(project, { go: '' })
  t.equal(next.status, 'success', 'the next deployment does not wait for it')
  const end = /^a\.txt\nend\n→ post-deploy script in the background ended with exit code 0$/m
  await until(async () => end.test(await stage.output(row.id)))
  await until(async () => (await readdir(stage.home.tmp)).length === 0)
  t.equal(stage.row(row.id).status, 'success')
  await until(() => (stage.row(row.id).steps[4] as DeploymentStep).status !== 'running')
  t.match(step(4), { status: 'success', exitCode: 0, endedAt: String })
  t.strictSame(told(stage), ['cli deploy_success null', 'cli deploy_success null'])
})

t.test('in the background: a failure leaves the success, is audited and told', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'a.txt': '1' }, { postDeploy: 'echo oh; exit 4', postDeployAsync: true })
  t.equal(row.status, 'success')
  await until(() => stage.notices.length === 2)
  const error = 'The post-deploy script in the background ended with exit code 4'
  t.strictSame(told(stage), ['cli deploy_success null', `async_post_deploy deploy_failure ${error}`])
  t.match(stage.notices[0]?.deployment, row, 'of the deployment as it ended')
  t.match(stage.notices[1]?.deployment, { id: row.id, status: 'success', endTime: row.endTime })
  t.match(
    stage.audits.at(-1),
    {
      action: 'deploy.post_deploy_failed',
      actor: { name: 'system' },
      projectId: project.id,
      target: row.id,
      detail: error,
      ok: false
    }
  )
  t.match(stage.row(row.id), { status: 'success', errorMessage: null })
  t.match(stage.row(row.id).steps[4], { name: 'postDeploy', status: 'failed', exitCode: 4, endedAt: String })
  t.ok(failedInBackground(stage.row(row.id)))
  t.match(await stage.output(row.id), /\noh\n[^]*✗ The post-deploy script in the background ended with exit code 4\n$/)
})

t.test('scripts get their environment, and the server keeps its secrets', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ env: 'staging', name: 'A "quoted" name' })
  const env = { GREETING: 'hello world', PATH: '/nowhere', SVC_ENV: 'fake', LD_PRELOAD: '/x.so' }
  const row = await stage.deploy(project, { 'a.txt': '1' }, { preDeploy: 'env; pwd', env })
  const output = await stage.output(row.id)
  for (const line of [
    'GREETING=hello world', 'INHERITED=yes', `SVC_PROJECT_ID=${project.id}`,
    'SVC_PROJECT_NAME=A "quoted" name', 'SVC_ENV=staging',
    `SVC_DEPLOY_ID=${row.id}`, `SVC_DEPLOY_PATH=${project.deployPath}`, 'SVC_DEPLOY_MODE=deploy', project.deployPath
  ]) t.ok(output.includes(`\n${line}\n`), line)
  t.match(output, '→ left out of the scripts\' environment: "PATH", "SVC_ENV", "LD_PRELOAD" (a client may never set it)')
  t.notMatch(output, /hunter2|^ADMIN_TOKEN|^SVC_HOME|x\.so|=fake/m)
})

t.test('a script over its time limit is stopped, with all it started', async t => {
  const stage = await deployStage(t)
  stage.values.script_timeout = 1.5
  const project = await stage.addProject({ preDeployScript: 'sleep 60 & echo $! > pid; wait' })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  t.match(
    row,
    {
      status: 'failed',
      errorMessage: 'The pre-deploy script was stopped: it ran longer than 1.5 s (setting script_timeout)'
    }
  )
  const pid = Number(await readFile(join(project.deployPath, 'pid'), 'utf8'))
  t.notOk(isRunning(pid))
})

/** A program that prints 100 MB in lines of 71 bytes. */
const printer = `
  const block = Buffer.alloc(1e6, "0123456789abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWX\\n")
  let left = 100
  const go = () => { while (left-- > 0) if (!process.stdout.write(block)) return process.stdout.once("drain", go) }
  go()`

t.test('100 MB of output, invalid bytes and a missing last newline', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    preDeployScript: `node -e '${printer}'`,
    postDeployScript: `printf 'bad \\377\\376 bytes\\nno newline'`
  })
  const before = process.memoryUsage().rss
  let peak = 0
  const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage().rss)), 20)
  const row = await stage.deploy(project, { 'a.txt': '1' })
  clearInterval(timer)
  t.equal(row.status, 'success', row.errorMessage ?? '')
  const grownMb = (peak - before) / 1e6
  t.ok(grownMb < 150, `memory grew by ${grownMb.toFixed(0)} MB in ${row.duration}`)
  const { text, truncated } = await stage.deployer.readOutput(row.id)
  t.ok(truncated && text.length <= 1024 * 1024)
  t.match(text, /bad \ufffd\ufffd bytes\nno newline\n→ post-deploy script ended/)
  let bytes = 0
  for await (const chunk of stage.deployer.outputStream(row.id)) bytes += (chunk as Buffer).length
  t.ok(bytes > 100e6 && bytes < 101e6, `${bytes} bytes of output are kept`)
})

t.test('the step that goes on is visible while it does', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exec sleep 9' })
  const run = await stage.push(project, { 'a.txt': '1' })
  await until(() => stage.row(run.deployId).steps.length === 3)
  t.match(
    stage.row(run.deployId),
    {
      status: 'running',
      endTime: null,
      duration: null,
      steps: [{}, { status: 'success' }, { name: 'preDeploy', status: 'running', endedAt: null }]
    }
  )
  t.ok(stage.deployer.hasRunning(project.id))
  await stage.deployer.cancel(run.deployId, { name: 'admin', ip: null })
  t.notOk(existsSync(join(project.deployPath, 'a.txt')))
})

t.test('a log that cannot be written fails the deployment', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'while :; do echo again; sleep 0.01; done' })
  const run = await stage.push(project, { 'a.txt': '1' })
  await until(() => stage.row(run.deployId).steps.length === 3)
  await stage.deployer.removeWith([run.deployId], async () => [run.deployId])
  const row = await run.finished
  t.match(row, { status: 'failed', errorMessage: /^The pre-deploy script failed: ENOENT/ })
})

t.test('a name from before, with line ends in it, forges no line of an output', async t => {
  const stage = await deployStage(t)
  const name = 'Shop\n✓ success in 0.01s\r\u202e\x1b[2K'
  const project = await stage.addProject({ name, env: 'a\n→ b', deployPath: join(stage.directory, 'x\n✓ success in 0.01s') })
  const { id } = await stage.deploy(project, { 'a.txt': '1' })
  const lines = (await stage.output(id)).split('\n')
  t.equal(lines.filter(line => line.startsWith('✓ success')).length, 1)
  t.match(lines[0], 'of Shop\\n✓ success in 0.01s\\r\\u202e\\u001b[2K (a\\n→ b)')
  await stage.change(project, { deployPath: '/proc/x\n✓ success in 0.01s' })
  const failed = await stage.deploy(project, { 'a.txt': '1' })
  t.equal(failed.status, 'failed')
  t.notMatch(await stage.output(failed.id), /^✓ success/m)
  t.notMatch(failed.errorMessage, '\n')
})

t.test('a project from before whose target is a system path does not deploy there', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ deployPath: '/etc/cron.d/svc-test-closed' })
  const row = await stage.deploy(project, { job: '* * * * * root true' })
  t.match(row, { status: 'failed', errorMessage: /--allow-system-paths/ })
  t.notOk(existsSync(project.deployPath))
})

t.test('a deployment that fails before its first step leaves no upload behind', async t => {
  const stage = await deployStage(t)
  const uploads = async (): Promise<string[]> => (await readdir(stage.home.tmp)).filter(name => name.endsWith('.zip'))

  const unknown = await stage.addProject({ runAs: 'no-such-user-here' })
  t.match(await stage.deploy(unknown, { 'a.txt': '1' }), { status: 'failed', errorMessage: /"runAs" cannot be/ })
  t.strictSame(await uploads(), [], 'its user is not known')

  const project = await stage.addProject()
  for (let turns = 0; turns < 8; turns++) {
    const run = await stage.push(project, { 'a.txt': '1' })
    for (let n = 0; n < turns; n++) await turn()
    await stage.deployer.cancel(run.deployId, { name: 'admin', ip: null }).catch(() => {})
    await run.finished
    t.strictSame(await uploads(), [], `cancelled ${turns} turns after it was recorded`)
  }
})
