import t, { type Test } from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createExecutors } from '../../lib/install/unpack/executors.js'
import { extractArchive } from '../../lib/install/unpack/extract.js'
import { createFiles } from '../../lib/deploy/files.js'
import type { Project } from '../../lib/model/project.js'
import { listDeployments, liveDeployment, placements, updateDeployment } from '../../lib/store/tables/deployments.js'
import { deployStage, never, type DeployStage } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'

const killer = fileURLToPath(new URL('../support/killed-deploy.js', import.meta.url))

/**
 * Deploys in a process that is killed between the last rename and the next write of the record. Returns the next stage.
 */
async function killedWhenDone(
  t: Test,
  before: DeployStage,
  project: Project,
  files: Record<string, string>
): Promise<{ stage: DeployStage; id: string }> {
  await before.store.close()
  const child = spawn(process.execPath, [killer, before.directory, project.id, JSON.stringify(files)], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let id = ''
  child.stdout?.on('data', (text: Buffer) => void (id += text.toString()))
  const [, signal] = (await once(child, 'close')) as [number | null, string | null]
  t.equal(signal, 'SIGKILL')
  t.ok(existsSync(createFiles(before.home).journal(id)), 'the journal tells the next start')
  return { stage: await deployStage(t, before.directory), id }
}

const steps = (stage: DeployStage, id: string): string[] =>
  stage.row(id).steps.map(({ name, status }) => `${name} ${status}`)
const postDeployScript = 'echo "after [$SVC_PREVIOUS_DEPLOY_ID]"'

t.test('after a kill with the files in place, the record and the output say so', async t => {
  const before = await deployStage(t)
  const project = await before.addProject({ postDeployScript })
  await before.deploy(project, { 'a.txt': '1' })
  const { stage, id } = await killedWhenDone(t, before, project, { 'a.txt': '2', 'b.txt': '2' })
  t.equal(await readFile(join(project.deployPath, 'a.txt'), 'utf8'), '2')
  t.match(stage.row(id), {
    status: 'failed',
    placed: 2,
    fileCount: 2,
    endTime: /^20/,
    errorMessage: deploySays.restartedWhileRunning
  })
  t.strictSame(steps(stage, id), ['store success', 'target success', 'preDeploy skipped', 'extract success'])
  t.match(
    await stage.output(id),
    matching(deploySays.filesStayForRollback, '✗ ', deploySays.restartedWhileRunning, /\n$/)
  )
  t.equal(liveDeployment(stage.store, project.id)?.id, id)
  t.strictSame(
    (await readdir(stage.home.deployments)).filter(name => name.endsWith('.undo')),
    []
  )
  t.strictSame(await readdir(project.deployPath), ['a.txt', 'b.txt'])

  const next = await stage.deploy(project, { 'a.txt': '3' })
  t.match(await stage.output(next.id), `after [${id}]`)
  t.equal(next.placed, 3)
})

t.test('after a kill, the record says where the contents are that its scripts replaced', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const first = await before.deploy(project, { 'a.txt': '1', 'b.txt': '1' })
  await before.change(project, { preDeployScript: 'echo changed > b.txt' })
  const { stage, id } = await killedWhenDone(t, before, project, { 'a.txt': '1', 'c.txt': '2' })
  t.match(placements(stage.store, project.id)[0], { id, beforeFrom: [first.id] })
})

t.test('after a kill with no files to move, the deployment is live', async t => {
  const before = await deployStage(t)
  const project = await before.addProject({ postDeployScript })
  await before.deploy(project, { 'a.txt': '1' })
  const { stage, id } = await killedWhenDone(t, before, project, { 'a.txt': '1' })
  t.match(stage.row(id), { status: 'failed', placed: 2, fileCount: 1 })
  t.match(await stage.output(id), deploySays.filesStay)
})

t.test('after a kill during the post-deploy script, the files are recorded as in place', async t => {
  const before = await deployStage(t)
  const project = await before.addProject({ postDeployScript: 'kill -9 $PPID' })
  await before.store.close()
  const child = spawn(process.execPath, [killer, before.directory, project.id, '{"a.txt":"1"}', 'later'], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  await once(child, 'close')
  const stage = await deployStage(t, before.directory)
  const [row] = listDeployments(stage.store, { limit: 1 })
  t.match(row, { status: 'failed', placed: 1 })
  t.match(await stage.output(row?.id as string), deploySays.filesStay)
})

t.test('the next deployment completes a record that is already final', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' })
  const late = await stage.deploy(project, { 'a.txt': '2' })
  // This happens if it is cancelled while a system call hangs and then returns.
  const failed = late.steps.map(step => (step.name === 'extract' ? { ...step, status: 'failed' as const } : step))
  await stage.store.write(tx => {
    tx.run('UPDATE deployments SET placed = NULL WHERE id = ?', late.id)
    updateDeployment(tx, late.id, {
      status: 'failed',
      errorMessage: deploySays.cancelledBy('admin'),
      steps: failed,
      fileCount: null
    })
  })
  await writeFile(
    createFiles(stage.home).journal(late.id),
    `svc-undo 2\ntarget ${project.deployPath}\nstaging x\nready 0 0\ndone\n`
  )
  const next = await stage.deploy(project, { 'a.txt': '3' })
  t.equal(next.placed, 3)
  t.match(stage.row(late.id), {
    status: 'failed',
    errorMessage: deploySays.cancelledBy('admin'),
    placed: 2,
    fileCount: 1
  })
  t.match(steps(stage, late.id).join(), 'extract success')
  t.match(await stage.output(late.id), deploySays.inPlaceAfterAll)
  t.equal(stage.row(first.id).placed, 1)
  t.strictSame(
    (await readdir(stage.home.deployments)).filter(name => name.endsWith('.undo')),
    []
  )
})

t.test('a target whose disk is missing at a start is restored by the next start', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const row = await before.deploy(project, { 'a.txt': '1' })
  const journal = createFiles(before.home).journal(row.id)
  await before.store.write(tx => {
    tx.run('UPDATE deployments SET placed = NULL WHERE id = ?', row.id)
    updateDeployment(tx, row.id, { status: 'running', steps: row.steps.slice(0, 2) })
  })
  // Interrupted before anything was moved. The mark is checked first.
  await writeFile(journal, `svc-undo 2\ntarget ${project.deployPath}\n`)
  await rename(project.deployPath, `${project.deployPath}.away`)
  const without = await before.restart()
  t.match(without.row(row.id), { status: 'failed', placed: null })
  t.match(await without.output(row.id), deploySays.targetNotThere)
  t.ok(existsSync(journal), 'the next start tries again')
  t.match(without.faults, [[deploySays.diskMissing]])
  await rename(`${project.deployPath}.away`, project.deployPath)
  const back = await without.restart()
  t.notOk(existsSync(journal))
  t.strictSame(back.faults, [])
})

t.test('lists the journal of an unknown deployment whose target does not exist: its disk may come back', async t => {
  const stage = await deployStage(t)
  const journal = createFiles(stage.home).journal('dep_aaaaaaaaaaaaaaaa')
  await writeFile(journal, 'svc-undo 2\ntarget /nowhere/at/all\n')
  const { deployer } = await stage.restart()
  t.ok(existsSync(journal))
  t.same(deployer.unfinishedTargets(), [{ deployId: 'dep_aaaaaaaaaaaaaaaa', target: '/nowhere/at/all' }])
})

t.test('a thread that dies after the last rename does not fail the deployment', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const { id } = await stage.deploy(project, { 'a.txt': '1', 'b/c.txt': '22' })
  const files = createFiles(stage.home)
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const dying = {
    ...executors,
    as: () => ({
      isStuck: () => false,
      async run(job: Parameters<ReturnType<typeof executors.as>['run']>[0], signal: AbortSignal) {
        const outcome = await executors.as(null).run(job, signal)
        return job.kind === 'extract' ? { kind: 'died' as const } : outcome
      }
    })
  }
  const extracted = await extractArchive(dying, {
    archivePath: files.archive(id),
    target: project.deployPath,
    deployId: 'dep_bbbbbbbbbbbbbbbb',
    home: stage.home,
    limits: { maxEntries: 10, maxExtractedBytes: 1e6 },
    signal: never
  })
  t.match(extracted, { fileCount: 2, bytes: 3, changedCount: 0 })
})
