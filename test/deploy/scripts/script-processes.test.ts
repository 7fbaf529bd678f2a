import t from 'tap'
import type { Test } from 'tap'
import { spawnSync } from 'node:child_process'
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  createScriptProcesses,
  endBackground,
  identityOf,
  leaveRunning
} from '../../../lib/deploy/scripts/script-processes.js'
import type { ChosenScript } from '../../../lib/deploy/scripts/scripts.js'
import {
  findDeployment,
  insertDeployment,
  insertScriptProcess,
  listScriptProcesses
} from '../../../lib/core/store/tables/deployments.js'
import { deployStage, type DeployStage } from '../../support/deploy-stage.js'
import { findIdentity, maySwitchUser } from '../../../lib/core/proc/identity.js'
import { bootId, knownProcess, type KnownProcess } from '../../../lib/core/proc/stop.js'
import { isRunning } from '../../support/processes.js'
import { type ServeProcess, startServeProcess } from '../../support/serve-process.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { matching } from '../../support/sentences/matching.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import { type DeploymentStep, listedDeployment } from '../../../lib/model/deployment.js'
import { aDeployment } from '../../core/store/stage.js'

t.test('records a background script even if it has already ended, but no other', async t => {
  const stage = await deployStage(t)
  const processes = createScriptProcesses({ ...stage, log: () => {} }, 'dep_a')
  const { pid } = spawnSync('true')
  const script = { source: 'platform', script: 'true', line: '' } as const
  processes.began({ ...script, step: 'preDeploy', async: false } as ChosenScript, pid)
  processes.began({ ...script, step: 'postDeploy', async: true } as ChosenScript, pid)
  await stage.store.write(() => {})
  t.match(listScriptProcesses(stage.store), [{ deployId: 'dep_a', step: 'postDeploy', pid }])
  t.equal(listScriptProcesses(stage.store).length, 1)
})

/*
 * Scripts whose server was killed, with real servers, real scripts and SIGKILL. The next start stops exactly those
 * that still run.
 */

const skip = !existsSync('/proc/self/environ') && 'there is no /proc'

/** Starts every kind of process that a script may leave. Each writes its number into a file with its name. */
const kinds = {
  member: `sh -c 'echo $$ > member; exec sleep 600' &`,
  left: `setsid sh -c 'echo $$ > left; exec sleep 600' &`,
  twice: `sh -c 'setsid sh -c "echo \\$\\$ > twice; exec sleep 600" &' &`,
  deaf: `setsid sh -c 'trap "" TERM; echo $$ > deaf; while :; do sleep 0.05; done' &`,
  emptied: `env -i PATH="$PATH" sh -c 'echo $$ > emptied; exec sleep 600' &`,
  freed: `setsid env -u SVC_SCRIPT sh -c 'echo $$ > freed; exec sleep 600' &`
}
type Kind = keyof typeof kinds
const all = Object.keys(kinds) as Kind[]
const startAll = `${Object.values(kinds).join('\n')}\nwait`

/** Creates a directory for a server and a target, where processes write their numbers. */
function place(t: Test) {
  const directory = mkdtempSync(join(tmpdir(), 'svc-interrupted-'))
  const target = join(directory, 'target')
  mkdirSync(target)
  const started = new Map<string, number>()
  t.teardown(() => {
    for (const pid of started.values()) if (isRunning(pid)) process.kill(pid, 'SIGKILL')
    rmSync(directory, { recursive: true, force: true })
  })
  async function pidOf(name: string): Promise<number> {
    let text = ''
    for (const path = join(target, name); !text.endsWith('\n'); await sleep(5))
      text = existsSync(path) ? readFileSync(path, 'utf8') : ''
    started.set(name, Number(text))
    return Number(text)
  }
  const running = (): string[] => [...started].filter(([, pid]) => isRunning(pid)).map(([name]) => name)
  return { directory, target, pidOf, running }
}

async function shop(server: ServeProcess, target: string, scripts: object) {
  const project = await server.createProject({ name: 'Shop', deployPath: target })
  await server.changeProject(project.id, scripts)
  return project
}

/** Starts the next server on the same data directory. It answers requests after the recovery. */
async function restarted(t: Test, directory: string): Promise<ServeProcess> {
  const server = await startServeProcess(t, directory)
  await server.api('GET', '/api/projects')
  return server
}

/** Waits until the processes are recorded. */
async function recorded({ home }: ServeProcess): Promise<void> {
  while (!['svc.db', 'svc.db.redo'].some(name => readFileSync(join(home, name)).includes(bootId()))) await sleep(5)
}

const outputOf = async (server: ServeProcess, id: string) =>
  (await server.api<{ output: string }>('GET', `/api/logs/${id}`)).output

t.test('stops a script of a killed server before the next deployment', { skip }, async t => {
  const { directory, target, pidOf, running } = place(t)
  const killed = await startServeProcess(t, directory)
  const project = await shop(killed, target, { preDeployScript: `${startAll}` })
  const { deployId, finished } = await killed.upload(project, { 'a.txt': '1' })
  finished.catch(() => {})
  for (const name of all) await pidOf(name)
  await recorded(killed)
  await killed.stop('SIGKILL')
  t.strictSame(running(), all, 'the processes survive the kill of the server')

  const server = await restarted(t, directory)
  t.strictSame(running(), ['freed'], 'only the daemon without the marker is left')
  t.match(await outputOf(server, deployId), deploySays.stillRunning('pre-deploy'))
  await server.changeProject(project.id, { preDeployScript: 'echo next' })
  const next = await server.upload(project, { 'a.txt': '2' })
  t.match((await next.finished).at(-1), { status: 'success' })
})

t.test('a daemon of a finished script continues', { skip }, async t => {
  const { directory, target, pidOf, running } = place(t)
  const killed = await startServeProcess(t, directory)
  const project = await shop(killed, target, {
    preDeployScript: `${kinds.left} while [ ! -s left ]; do sleep 0.02; done`,
    postDeployScript: `${kinds.member} wait`
  })
  const { finished } = await killed.upload(project, { 'a.txt': '1' })
  finished.catch(() => {})
  for (const name of ['left', 'member']) await pidOf(name)
  await killed.stop('SIGKILL')
  await restarted(t, directory)
  t.strictSame(running(), ['left'], 'it belongs to the pre-deploy script; the post-deploy script was interrupted')
})

t.test('stops a background script and records its failure', { skip }, async t => {
  const { directory, target, pidOf, running } = place(t)
  const killed = await startServeProcess(t, directory)
  const project = await shop(killed, target, {
    postDeployScript: `${kinds.left} ${kinds.member} wait`,
    postDeployAsync: true
  })
  const { deployId, finished } = await killed.upload(project, { 'a.txt': '1' })
  t.match((await finished).at(-1), { status: 'success' })
  for (const name of ['left', 'member']) await pidOf(name)
  await killed.stop('SIGKILL')

  const server = await restarted(t, directory)
  t.strictSame(running(), [])
  const complaint = deploySays.cutShortInBackground
  t.match(await outputOf(server, deployId), matching(deploySays.stillRunning('post-deploy'), '\n✗ ', complaint, /\n$/))
  t.match(await server.deployments(project.id), [{ id: deployId, status: 'success' }])
  const { items } = await server.api<{ items: object[] }>('GET', '/api/audit?limit=50')
  t.match(
    items.filter(item => 'action' in item && item.action === 'deploy.post_deploy_failed'),
    [{ target: deployId, detail: complaint, ok: false }]
  )
})

t.test('an orderly stop and the next start leave a background script running', { skip }, async t => {
  const { directory, target, pidOf, running } = place(t)
  const stopped = await startServeProcess(t, directory)
  const project = await shop(stopped, target, { postDeployScript: `${kinds.member} wait`, postDeployAsync: true })
  await (await stopped.upload(project, { 'a.txt': '1' })).finished
  await pidOf('member')
  await stopped.stop('SIGTERM')
  await restarted(t, directory)
  t.strictSame(running(), ['member'])
})

t.test('a cancellation stops processes outside the group, a normal end does not', { skip }, async t => {
  const { target, pidOf, running } = place(t)
  const stage = await deployStage(t)
  const project = await stage.addProject({
    deployPath: target,
    preDeployScript: `${kinds.left} while [ ! -s left ]; do sleep 0.02; done`
  })
  await stage.deploy(project, { 'a.txt': '1' })
  t.match(await pidOf('left'), Number)
  rmSync(join(target, 'left'))
  await stage.change(project, { preDeployScript: startAll.replace(kinds.left, '').replace(kinds.deaf, '') })
  const run = await stage.push(project, { 'a.txt': '2' })
  for (const name of ['member', 'twice', 'emptied', 'freed']) await pidOf(name)
  await stage.deployer.cancel(run.deployId, { name: 'admin', ip: null })
  t.strictSame(running(), ['left', 'freed'])
  t.strictSame(listScriptProcesses(stage.store), [], 'no process is recorded any more')
})

t.test('does not stop a process with a reused number or of another boot', { skip }, async t => {
  const { pidOf, running, target } = place(t)
  const stage = await deployStage(t)
  const project = await stage.addProject({
    deployPath: target,
    postDeployScript: `${kinds.member} ${kinds.left} while [ ! -s left ]; do sleep 0.02; done`
  })
  const row = await stage.deploy(project, { 'a.txt': '1' })
  const member = await pidOf('member')
  const left = await pidOf('left')
  const known = knownProcess(left) as KnownProcess
  const others = [
    { ...known, startedAt: '7' },
    { ...known, bootId: 'another boot' }
  ]
  for (const other of others) {
    // No process has the marker, so only the number could be mistaken.
    await stage.store.write(tx =>
      insertScriptProcess(tx, { deployId: 'dep_of_nobody', step: 'postDeploy', home: identityOf(stage.home), ...other })
    )
    await stage.deployer.recover()
    t.strictSame(running(), ['member', 'left'])
    t.strictSame(listScriptProcesses(stage.store), [])
  }
  // The deployment's record says that the step has ended. This record was not removed because the disk was full.
  await stage.store.write(tx =>
    insertScriptProcess(tx, { deployId: row.id, step: 'postDeploy', home: identityOf(stage.home), ...known })
  )
  await stage.deployer.recover()
  t.strictSame(running(), ['member', 'left'])
  t.equal(findDeployment(stage.store, row.id)?.status, 'success')
  t.ok(isRunning(member))
})

t.test('a server on a copy of the data directory leaves scripts of the first one alone', { skip }, async t => {
  const { directory, target, pidOf, running } = place(t)
  const first = await startServeProcess(t, directory)
  const project = await shop(first, target, { preDeployScript: `${kinds.left} ${kinds.member} wait` })
  const { deployId, finished } = await first.upload(project, { 'a.txt': '1' })
  for (const name of ['left', 'member']) await pidOf(name)
  await recorded(first)
  const elsewhere = join(directory, 'elsewhere')
  cpSync(first.home, join(elsewhere, 'server-home'), { recursive: true, filter: path => !path.includes('svc.sock') })
  await restarted(t, elsewhere)
  t.strictSame(running(), ['left', 'member'])
  await first.api('POST', `/api/deployments/${deployId}/cancel`)
  t.match((await finished).at(-1), { status: 'failed' })
})

t.test('finds a script by its marker if it was not recorded before the kill', { skip }, async t => {
  const { directory, target, pidOf, running } = place(t)
  const killed = await startServeProcess(t, directory)
  const project = await shop(killed, target, { preDeployScript: `${kinds.left} ${kinds.member} wait` })
  const { finished } = await killed.upload(project, { 'a.txt': '1' })
  finished.catch(() => {})
  for (const name of ['left', 'member']) await pidOf(name)
  await killed.stop('SIGKILL')

  const store = await openStore({ directory: killed.home })
  await store.write(tx => void tx.run('DELETE FROM scriptProcesses'))
  await store.close()
  await restarted(t, directory)
  t.strictSame(running(), [])
})

t.test(
  'also stops a script with the rights of another user',
  { skip: skip || (!maySwitchUser() && 'this is not root') },
  async t => {
    const { directory, target, pidOf, running } = place(t)
    const { uid, gid } = await findIdentity('nobody')
    chmodSync(directory, 0o755)
    chownSync(target, uid, gid)
    const killed = await startServeProcess(t, directory)
    const project = await shop(killed, target, {
      runAs: 'nobody',
      preDeployScript: `${kinds.left} ${kinds.member} wait`
    })
    const { finished } = await killed.upload(project, { 'a.txt': '1' })
    finished.catch(() => {})
    for (const name of ['left', 'member']) await pidOf(name)
    await killed.stop('SIGKILL')
    await restarted(t, directory)
    t.strictSame(running(), [])
  }
)

const at = '2030-01-01T00:00:00.000Z'
const stepOf = (name: DeploymentStep['name']): DeploymentStep => ({
  name,
  status: 'success',
  startedAt: at,
  endedAt: at
})

/** Creates a finished deployment whose background script still runs. */
async function withScript(stage: DeployStage): Promise<string> {
  const project = await stage.addProject()
  const steps = [stepOf('extract'), { ...stepOf('postDeploy'), exitCode: null }, stepOf('cleanup')]
  leaveRunning(steps)
  const scripts = [{ step: 'postDeploy', source: 'platform', script: 'true', async: true } as const]
  const row = aDeployment({ id: 'dep_b', projectId: project.id, steps, scripts })
  await stage.store.write(tx => insertDeployment(tx, row))
  return row.id
}

t.test('records a failure in the step, audits it and notifies', async t => {
  const stage = await deployStage(t)
  const id = await withScript(stage)
  t.match(stage.row(id).steps, [{ status: 'success' }, { status: 'running', endedAt: null }, { status: 'success' }])
  t.notOk(listedDeployment(stage.row(id)).backgroundFailed, 'not yet')
  await endBackground(stage, id, { complaint: 'It was ended', exitCode: null })
  t.match(stage.row(id), {
    status: 'success',
    errorMessage: null,
    steps: [{ endedAt: at }, { status: 'failed', endedAt: String, exitCode: null }, { endedAt: at }]
  })
  t.ok(listedDeployment(stage.row(id)).backgroundFailed)
  t.match(stage.audits.at(-1), { action: 'deploy.post_deploy_failed', target: id, detail: 'It was ended', ok: false })
  t.match(stage.notices, [{ trigger: 'async_post_deploy', event: 'deploy_failure', errorMessage: 'It was ended' }])
  await endBackground(stage, id, { complaint: 'Again', exitCode: 1 })
  t.equal(stage.notices.length, 1, 'the end is reported once')
})

t.test('does not notify of a success', async t => {
  const stage = await deployStage(t)
  const id = await withScript(stage)
  await endBackground(stage, id, { complaint: null, exitCode: 0 })
  t.match(stage.row(id).steps[1], { status: 'success', exitCode: 0, endedAt: String })
  t.notOk(listedDeployment(stage.row(id)).backgroundFailed)
  t.equal(stage.notices.length, 0)
})

t.test('ignores a deleted record, and notifies even if the end cannot be recorded', async t => {
  const stage = await deployStage(t)
  await endBackground(stage, 'dep_none', { complaint: 'no', exitCode: 1 })
  t.equal(stage.notices.length, 0)
  const id = await withScript(stage)
  const failing = {
    ...stage,
    store: {
      ...stage.store,
      write: async () => {
        throw new Error('full')
      }
    }
  }
  await endBackground(failing, id, { complaint: 'no', exitCode: 1 })
  t.equal(stage.notices.length, 1)
  t.equal(stage.faults.length, 1)
})

t.test('a start finds the processes until the end is recorded', async t => {
  const stage = await deployStage(t)
  const id = await withScript(stage)
  const process = { deployId: id, step: 'postDeploy', pid: 1, startedAt: '1', bootId: 'a', home: 'b' } as const
  await stage.store.write(tx => insertScriptProcess(tx, process))
  t.match(listScriptProcesses(stage.store), [process])
  await endBackground(stage, id, { complaint: null, exitCode: 0 })
  t.strictSame(listScriptProcesses(stage.store), [])
})
