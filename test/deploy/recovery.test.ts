import t from 'tap'
import type { Test } from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdtemp, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { createFiles } from '../../lib/deploy/files.js'
import { listDeployments, liveDeployment, updateDeployment } from '../../lib/core/store/tables/deployments.js'
import type { Deployment, DeploymentRow } from '../../lib/model/deployment.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { until } from '../support/until.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import type { ListedRollout } from '../../lib/model/rollout.js'
import { startAgentProcess } from '../support/agent-process.js'
import { freePort } from '../support/free-port.js'
import { type ServeProcess, startServeProcess, type Upload } from '../support/serve-process.js'
import { bare } from '../support/bare.js'
import { contentsOf, leftIn, stepsOf } from '../support/held.js'
import { repetitions } from '../support/thorough.js'
import { createUnfinished } from '../../lib/deploy/recovery.js'
import { type AuditEvent, systemActor } from '../../lib/model/audit.js'
import { openStage } from '../support/store.js'

/** Writes a record as a killed server leaves it. */
async function interrupt(stage: DeployStage, row: DeploymentRow, status: 'queued' | 'running'): Promise<void> {
  const [stored, target] = row.steps
  const steps = status === 'queued' ? [stored] : [stored, { ...target, status: 'running', endedAt: null }]
  const patch = { status, endTime: null, duration: null, steps } as Partial<DeploymentRow>
  await stage.store.write(tx => updateDeployment(tx, row.id, patch))
}

t.test('queued and running deployments fail at a start, and their output says so', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const done = await before.deploy(project, { 'a.txt': '1' })
  const queued = await before.deploy(project, { 'a.txt': '2' })
  const running = await before.deploy(project, { 'a.txt': '3' })
  await interrupt(before, queued, 'queued')
  await interrupt(before, running, 'running')
  await appendFile(createFiles(before.home).output(running.id), '2030-01-01T00:00:00.000Z torn by the ki')

  const stage = await before.restart()
  t.strictSame(stage.row(done.id), done)
  const cases = [
    { id: queued.id, sentence: deploySays.restartedWhileQueued, steps: ['success'] },
    {
      id: running.id,
      sentence: deploySays.restartedWhileRunning,
      steps: ['success', 'failed']
    }
  ]
  for (const { id, sentence, steps } of cases) {
    const row = stage.row(id)
    t.match(row, { status: 'failed', errorMessage: sentence, endTime: /^20/, duration: /s$/, hasArtifact: true })
    t.strictSame(
      row.steps.map(step => step.status),
      steps
    )
    t.ok(row.steps.every(step => step.endedAt !== null))
    t.match(await stage.output(id), matching(deploySays.succeeded, '\n✗ ', sentence, /\n$/))
  }
  t.strictSame(
    stage.notices.map(({ trigger, event, deployment }) => [trigger, event, deployment.id]),
    [
      ['cli', 'deploy_failure', queued.id],
      ['cli', 'deploy_failure', running.id]
    ]
  )
  t.equal((await stage.deploy(project, { 'a.txt': '4' })).status, 'success', 'the project can be deployed again')
})

t.test('after a kill during a change, the target is as before it', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  await before.store.close()
  const program = fileURLToPath(new URL('../support/deploy-child.js', import.meta.url))
  const child = spawn(...bare(process.execPath, [program, before.directory, project.id]), {
    stdio: ['ignore', 'inherit', 'inherit']
  })
  t.strictSame(await once(child, 'exit'), [null, 'SIGKILL'])

  const stage = await deployStage(t, before.directory)
  const rows = listDeployments(stage.store, { projectId: project.id, limit: 10 })
  t.strictSame(
    rows.map(({ status }) => status),
    ['failed', 'success']
  )
  const texts = new Set<string>()
  for (let index = 0; index < 40; index++)
    texts.add(await readFile(join(project.deployPath, `d${index % 7}/f${index}`), 'utf8'))
  t.strictSame([...texts], ['round 1'])
  t.match(await stage.output(rows[0]?.id as string), `✗ ${deploySays.restartedWhileRunning}`)
  t.notOk(
    (await readdir(project.deployPath)).some(name => name.startsWith('.svc')),
    'no staging directory is left'
  )
  t.strictSame(await readdir(stage.home.tmp), [])
})

/** A server that can be killed, and a project on one node. */
async function requeueStage(t: Parameters<typeof startServeProcess>[0] & { testdir(): string }) {
  const cwd = t.testdir()
  const port = String(await freePort())
  const start = () => startServeProcess(t, cwd, ['--port', port])
  let server: ServeProcess = await start()
  const { token } = await server.api<{ token: string }>('POST', '/api/enrollments', { name: 'n1' })
  const agent = await startAgentProcess(t, cwd, ['--hub', server.url], { env: { SVC_ENROLL_TOKEN: token } })
  await agent.says(/Connected to the hub/)
  const project = await server.createProject({ name: 'Shop', deployPath: join(cwd, 'www') })
  await server.changeProject(project.id, { allowClientScripts: true })
  await server.api('PATCH', `/api/projects/${project.id}/placements`, { add: [{ node: 'n1' }], remove: [] })

  async function push(files: Record<string, string>, fields: Record<string, string> = {}): Promise<Upload> {
    const upload = await server.upload(project, files, fields)
    upload.finished.catch(() => {})
    return upload
  }
  const record = (id: string) => server.api<Deployment>('GET', `/api/logs/${id}`)
  return {
    cwd,
    agent,
    push,
    record,
    page: () => readFileSync(join(cwd, 'www', 'index.html'), 'utf8'),
    archive: (id: string) => join(server.home, 'deployments', `${id}.zip`),
    rollouts: async () => (await server.api<{ rollouts: ListedRollout[] }>('GET', '/api/rollouts')).rollouts,
    /** A push that cannot go on, because the node stands still. */
    async stuckPush(text: string): Promise<Upload> {
      agent.child.kill('SIGSTOP')
      const upload = await push({ 'index.html': text })
      await until(async () => (await record(upload.deployId)).steps.some(({ name }) => name === 'rollout'))
      return upload
    },
    final: (id: string) =>
      until(async () => {
        const row = await record(id)
        return (row.status === 'success' || row.status === 'failed') && row
      }),
    change: (fields: object) => server.changeProject(project.id, fields),
    async restart(signal: NodeJS.Signals) {
      await server.stop(signal)
      server = await start()
    }
  }
}

t.test('a kill loses no deployment that waits for its rollout', async t => {
  const stage = await requeueStage(t)
  const { agent, record, final } = stage
  const first = await stage.stuckPush('one')
  await until(async () => (await stage.rollouts()).length === 1)
  const fields = { postDeploy: 'echo "$WORD" > word', env: '{"WORD":"kept"}', rollout: '{"maxFailures":7}' }
  const second = await stage.push({ 'index.html': 'two' }, fields)
  const without = await stage.push({ 'index.html': 'lost' })
  await stage.restart('SIGKILL')
  t.match(await record(first.deployId), { status: 'running' })
  t.match(await record(second.deployId), { status: 'queued' })

  await stage.restart('SIGKILL')
  rmSync(stage.archive(without.deployId))
  await stage.restart('SIGTERM')
  t.match(await record(second.deployId), { status: 'queued' }, 'a stop keeps it, too')
  agent.child.kill('SIGCONT')
  t.match(await final(first.deployId), { status: 'success', output: /the deployment continues/ })
  t.match(await final(second.deployId), { status: 'success', output: /the deployment is queued again/ })
  t.equal(stage.page(), 'two')
  t.equal(readFileSync(join(stage.cwd, 'www', 'word'), 'utf8'), 'kept\n', 'with its scripts and variables')
  t.match(await stage.rollouts(), [
    { deployId: second.deployId, policy: { maxFailures: 7 } },
    { deployId: first.deployId }
  ])
  t.match(await final(without.deployId), {
    status: 'failed',
    errorMessage: deploySays.archiveLostInQueue(without.deployId)
  })
})

t.test('a policy that became stricter before a restart applies to a rollout that waits', async t => {
  const stage = await requeueStage(t)
  await stage.stuckPush('one')
  const queued = await stage.push({ 'index.html': 'two' }, { rollout: '{"maxFailures":7}' })
  await stage.change({ policy: { rollout: { maxFailures: 1 } } })
  await stage.restart('SIGKILL')
  stage.agent.child.kill('SIGCONT')
  t.match(await stage.final(queued.deployId), {
    status: 'failed',
    errorMessage:
      /may not roll out with "maxFailures": 7\. The policy "rollout\.maxFailures" of the project is stricter/
  })
  t.equal(stage.page(), 'one')
})

t.test('a deployment whose rollout was not created ends truthfully', async t => {
  const stage = await requeueStage(t)
  const first = await stage.stuckPush('first')
  const { deployId } = await stage.push({ 'index.html': 'never' })
  // The server reads the archive before the rollout begins, and nobody writes into this one.
  const archive = stage.archive(deployId)
  rmSync(archive)
  await once(spawn('mkfifo', [archive]), 'exit')
  stage.agent.child.kill('SIGCONT')
  const writer = await until(() => {
    try {
      return openSync(archive, constants.O_WRONLY | constants.O_NONBLOCK)
    } catch {
      return null
    }
  })
  rmSync(archive)
  await stage.restart('SIGKILL')
  closeSync(writer)
  t.match(await stage.final(deployId), { status: 'failed', errorMessage: deploySays.restartedBeforeRollout })
  t.match(await stage.rollouts(), [{ deployId: first.deployId }])
  const { deployId: next } = await stage.push({ 'index.html': 'next' })
  t.match(await stage.final(next), { status: 'success' })
  t.equal(stage.page(), 'next')
})

t.test('a stopping server leaves a deployment open, and the next start continues it', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.row(run.deployId).heldFor === 'confirm' && stage.deployer.confirmUntil(run.deployId) !== null)
  await stage.deployer.stop({ wait: true })
  const { holdUntil, ...left } = stage.row(run.deployId)
  t.match(left, { status: 'running', heldFor: 'confirm' })
  const restarted = await stage.restart()
  const { deployId } = run
  await until(() => restarted.deployer.confirmUntil(deployId) !== null)
  t.equal(restarted.deployer.confirmUntil(deployId), holdUntil)
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

t.test('a start puts a deployment back whose window has ended', async t => {
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

const child = fileURLToPath(new URL('../support/held-child.js', import.meta.url))

for (const action of ['confirm', 'revert', 'expire'] as const) {
  t.test(`after a kill at any write of a record, files and record agree: ${action}`, async t => {
    const seen = { new: 0, old: 0 }
    for (let n = 1; ; n += repetitions(5, 1)) {
      const directory = await mkdtemp(join(tmpdir(), 'svc-held-'))
      const first = await deployStage({ teardown: () => {} } as unknown as Test, directory)
      const project = await first.addProject({ postDeployScript: 'echo "mode $SVC_DEPLOY_MODE"' })
      const { id: firstId } = await first.deploy(project, { 'a.txt': '1' })
      await first.deployer.stop({ wait: true })
      await first.store.close()
      const killed = spawn(...bare(process.execPath, [child, directory, project.id, action, String(n)]), {
        stdio: ['ignore', 'ignore', 'inherit']
      })
      const [code, signal] = (await once(killed, 'exit')) as [number | null, string | null]
      const stage = await deployStage(t, directory)
      const [row] = listDeployments(stage.store, { projectId: project.id, limit: 1 })
      const id = row?.id ?? firstId
      await until(() => stage.row(id).status !== 'running' || stage.deployer.confirmUntil(id) !== null)
      if (stage.deployer.confirmUntil(id) !== null) {
        if (n % 4 < 2) await stage.deployer.confirm(id, admin)
        else await stage.deployer.revert(id, admin)
      }
      const { status, placed, revertedAt, heldFor, holdUntil } = stage.row(id)
      const isNew = (await contentsOf(project)) === '2'
      seen[isNew ? 'new' : 'old']++
      const what = `write ${n}: ${status}, placed ${placed}, reverted at ${revertedAt}`
      t.equal(isNew && id !== firstId, placed !== null && id !== firstId, what)
      t.equal(existsSync(join(project.deployPath, 'new')), isNew, `${what}: a new directory`)
      t.strictSame([heldFor, holdUntil], [null, null], what)
      t.equal(liveDeployment(stage.store, project.id)?.id, isNew ? id : firstId, what)
      t.strictSame(await leftIn(stage, project), [], what)
      if (signal === null) {
        t.equal(code, 0)
        break
      }
    }
    t.ok(seen.old > 0 && (action !== 'confirm' || seen.new > 0), JSON.stringify(seen))
  })
}

t.test('only a journal that nobody works on is listed and given up, and its owner goes with it', async t => {
  const { store } = await openStage(t)
  const deployments = t.testdir({})
  const away = join(t.testdirName, 'away')
  for (const id of ['dep_1', 'dep_2']) writeFileSync(join(deployments, `${id}.undo`), `svc-undo 4\ntarget ${away}\n`)
  const entries: AuditEvent[] = []
  const needs = { store, home: { deployments }, audit: (event: AuditEvent) => void entries.push(event) }
  const { unfinishedTargets, giveUp } = createUnfinished({
    ...needs,
    targets: { isHeld: (id: string) => id === 'dep_2' }
  } as never)
  t.strictSame(unfinishedTargets(), [{ deployId: 'dep_1', target: away }])
  const asked = { actor: systemActor }
  await t.rejects(giveUp('dep_2', asked), { code: 'not_found' })
  mkdirSync(away)
  t.strictSame(await giveUp('dep_1', asked), { deployId: 'dep_1', target: away }, 'another directory is at the path')
  t.strictSame(readdirSync(deployments).sort(), ['away', 'dep_2.undo'])
  t.match(entries, [{ action: 'deployment.give_up', target: 'dep_1', detail: away }])
})
