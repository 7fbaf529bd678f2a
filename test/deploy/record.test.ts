import t, { type Test } from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  assertTransition,
  type Cause,
  createOpenDeployments,
  endOf,
  eventOf,
  moveRecord,
  refuseIfFinal,
  refuseUnlessFinal,
  sendNotice,
  type Outcome,
  createEnds,
  createListed
} from '../../lib/deploy/record.js'
import type { DeploymentRow, DeploymentStatus } from '../../lib/model/deployment.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { extractArchive } from '../../lib/core/install/unpack/extract.js'
import { createFiles } from '../../lib/deploy/files.js'
import type { Project } from '../../lib/model/project.js'
import {
  listDeployments,
  liveDeployment,
  placements,
  updateDeployment,
  insertDeployment
} from '../../lib/core/store/tables/deployments.js'
import { matching } from '../support/sentences/matching.js'
import { contentsOf } from '../support/held.js'
import { until } from '../support/until.js'
import { Refusal } from '../../lib/base/errors.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import { aDeployment, aProject } from '../core/store/stage.js'
import { openStage } from '../support/store.js'

t.test('changes a status only as the table allows', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 1' })
  const row = await stage.deploy(project, { a: '1' })
  await t.rejects(moveRecord(stage, row.id, { to: 'running', cause: 'turn' }), {
    message: deploySays.noTransition('failed', 'running', 'turn')
  })
  t.equal(stage.row(row.id).status, 'failed')
  t.match(await moveRecord(stage, row.id, { to: 'success', cause: 'correction', patch: { errorMessage: null } }), {
    status: 'success',
    errorMessage: null
  })
  t.equal(await moveRecord(stage, 'dep_none', { to: 'failed', cause: 'end' }), undefined)
})

t.test('records the end time and the duration', async t => {
  const row = { startTime: '2030-01-01T00:00:00.000Z', startAt: null, approvals: [] } as unknown as DeploymentRow
  t.strictSame(
    endOf(row, { status: 'failed', cause: 'end', errorMessage: 'why' }, Date.parse('2030-01-01T00:01:01.500Z')),
    {
      status: 'failed',
      errorMessage: 'why',
      endTime: '2030-01-01T00:01:01.500Z',
      duration: '61.50s'
    }
  )
  const at = (hour: number) => `2030-01-01T0${hour}:00:00.000Z`
  const store = { name: 'store', startedAt: at(0) }
  const steps = [store, { name: 'target', startedAt: at(2) }]
  const outcome = { status: 'failed', cause: 'end', errorMessage: null } as const
  for (const [waited, duration] of [
    [{ steps }, '10800.00s'],
    [{ steps, approvals: [{}] }, '3600.00s'],
    [{ steps, startAt: at(2) }, '3600.00s'],
    [{ steps: [store], approvals: [{}] }, '0.00s'],
    [{ steps: [store], heldFor: 'approval' }, '0.00s']
  ] as const)
    t.equal(endOf({ ...row, ...waited } as DeploymentRow, outcome, Date.parse(at(3))).duration, duration, 'no waiting')
  t.equal(eventOf('success'), 'deploy_success')
  t.equal(eventOf('failed'), 'deploy_failure')
})

t.test('tolerates a failed notification, and skips a deleted project', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 1' })
  const row = await stage.deploy(project, { a: '1' })
  const notice = { trigger: 'manual', event: 'deploy_failure', errorMessage: null } as const
  const notify = (): void => {
    throw new Error('no network')
  }
  sendNotice({ ...stage, notify }, row, notice)
  t.equal(stage.faults.length, 1)
  sendNotice({ ...stage, notify }, { ...row, projectId: 'proj_none' }, notice)
  t.equal(stage.faults.length, 1)
})

const allowed = new Set([
  'queued running turn',
  ...['end', 'cancel', 'stop', 'restart'].flatMap(cause => [`queued failed ${cause}`, `running failed ${cause}`]),
  'running success end',
  'success success correction',
  'success failed correction',
  'failed success correction',
  'failed failed correction'
])

t.test('allows only the transitions of the table', async t => {
  const states: DeploymentStatus[] = ['queued', 'running', 'success', 'failed']
  const causes: Cause[] = ['turn', 'end', 'cancel', 'stop', 'restart', 'correction']
  for (const from of states) {
    for (const to of states) {
      for (const cause of causes) {
        const move = `${from} ${to} ${cause}`
        const attempt = (): void => assertTransition(from, to, cause)
        if (allowed.has(move)) t.doesNotThrow(attempt, move)
        else t.throws(attempt, { message: deploySays.noTransition(from, to, cause) }, move)
      }
    }
  }
})

t.test('both refusals name the status', async t => {
  const row = (status: DeploymentStatus) => ({ id: 'dep_1', status }) as DeploymentRow
  t.throws(() => refuseUnlessFinal(row('running'), 'marked'), {
    kind: 'conflict',
    code: 'not_finished',
    message: /running/
  })
  t.throws(() => refuseUnlessFinal(row('queued'), 'marked'), { code: 'not_finished', message: /queued/ })
  t.throws(() => refuseIfFinal(row('success'), 'cancelled'), {
    kind: 'conflict',
    code: 'already_finished',
    message: /success/
  })
  t.doesNotThrow(() => refuseUnlessFinal(row('failed'), 'marked'))
  t.doesNotThrow(() => refuseIfFinal(row('queued'), 'cancelled'))
})

const killer = fileURLToPath(new URL('../support/killed-deploy.js', import.meta.url))

/**
 * Deploys in a process that is killed between the last rename and the next write of the record, or right after the result is
 * recorded. Returns the next stage.
 */
async function killedWhenDone(
  t: Test,
  before: DeployStage,
  project: Project,
  files: Record<string, string>,
  ...when: Array<'recorded'>
): Promise<{ stage: DeployStage; id: string }> {
  await before.store.close()
  const child = spawn(process.execPath, [killer, before.directory, project.id, JSON.stringify(files), ...when], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let id = ''
  child.stdout?.on('data', (text: Buffer) => void (id += text.toString()))
  const [, signal] = (await once(child, 'close')) as [number | null, string | null]
  t.equal(signal, 'SIGKILL')
  t.ok(existsSync(createFiles(before.home).journal(id)), 'the journal tells the next start')
  return { stage: await deployStage(t, before.directory), id }
}

t.test('a kill before the replaced files are removed leaves them to the next start', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const files = (text: string) => Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`d/f${at}`, text]))
  await before.deploy(project, files('one'))
  const { stage, id } = await killedWhenDone(t, before, project, files('two'), 'recorded')
  t.match(stage.row(id), { status: 'success', placed: 2 })
  t.strictSame(readdirSync(project.deployPath), ['d'])
  t.notOk(existsSync(createFiles(stage.home).journal(id)))
  t.equal(liveDeployment(stage.store, project.id)?.id, id)
  // Nobody is told to wait while the replaced files are removed.
  const third = await stage.deploy(project, files('three'))
  const fourth = await stage.deploy(project, files('four'))
  t.notMatch(await stage.output(fourth.id), /waiting for|queued/)
  await stage.deployer.stop({ wait: true })
  t.strictSame(readdirSync(project.deployPath), ['d'])
  for (const id of [third.id, fourth.id]) t.notOk(existsSync(createFiles(stage.home).journal(id)))
  t.strictSame(stage.faults, [])
})

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

t.test('the next deployment finishes a revert that failed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1', 'b.txt': '1' })
  const run = await stage.push(project, { 'a.txt': '2', 'b.txt': '2' }, { confirmSeconds: 60 })
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  await rename(project.deployPath, `${project.deployPath}-away`)
  await stage.deployer.revert(run.deployId, admin)
  await rename(`${project.deployPath}-away`, project.deployPath)
  t.equal((await stage.deploy(project, { 'a.txt': '3' })).status, 'success')
  t.equal(await contentsOf(project, 'b.txt'), '1', 'the file before the reverted deployment')
  t.match(stage.row(run.deployId), { revertedAt: /Z$/, placed: null })
})

t.test('decides by the record', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const open = createOpenDeployments({ ...stage, files: createFiles(stage.home) })
  const { id } = await stage.deploy(project, { 'a.txt': '1' })
  const change = (patch: Partial<DeploymentRow>) => stage.store.write(tx => updateDeployment(tx, id, patch))
  t.equal(open.decide('dep_unknown'), 'revert', 'no record')
  t.equal(open.decide(id), 'settle', 'its files are in place')
  await change({ status: 'running', heldFor: 'check' })
  t.equal(open.decide(id), 'leave', 'its run decides')
  await change({ status: 'failed', heldFor: null, revertReason: 'check' })
  t.equal(open.decide(id), 'revert', 'it failed')
  await open.onReverted(id)
  t.match(stage.row(id), { placed: null, revertReason: 'check', revertedAt: /Z$/ })
  const { revertedAt } = stage.row(id)
  await open.onReverted(id)
  await open.onReverted('dep_unknown')
  t.equal(stage.row(id).revertedAt, revertedAt, 'again')
})

const outcome: Outcome = { status: 'failed', cause: 'end', errorMessage: 'why' }

/** Refuses every write, like a full disk, until `hasRoom`. */
function fillDisk(stage: DeployStage): { hasRoom(): void } {
  const { write } = stage.store
  stage.store.write = () =>
    Promise.reject(new Refusal('unavailable', 'disk_full', 'The change was not saved: the disk is full'))
  return { hasRoom: () => void (stage.store.write = write) }
}

t.test('records a result later if the first attempt fails', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 1' })
  const { id } = await stage.deploy(project, { a: '1' })
  await stage.store.write(tx => updateDeployment(tx, id, { status: 'running' }))
  const disk = fillDisk(stage)
  const ends = createEnds({ ...stage, endRetriesMs: [1], log: () => disk.hasRoom() })
  t.match(await ends.record({ ...stage.row(id), errorMessage: 'why' }, outcome), {
    status: 'failed',
    errorMessage: 'why'
  })
  t.equal(stage.row(id).status, 'failed')
  t.strictSame(ends.kept(), [])
})

t.test('retries after each wait, but never waits during a start', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 1' })
  const { id } = await stage.deploy(project, { a: '1' })
  await stage.store.write(tx => updateDeployment(tx, id, { status: 'running' }))
  fillDisk(stage)
  let tried = 0
  const ends = createEnds({ ...stage, endRetriesMs: [1, 1], log: () => void tried++ })
  for (const [cause, times] of [
    ['end', 3],
    ['restart', 1]
  ] as const) {
    tried = 0
    t.match(await ends.record(stage.row(id), { ...outcome, cause }), { id })
    t.equal(tried, times, cause)
    t.match(ends.kept(), [{ id }])
  }
})

t.test('keeps an unrecorded result, uses it as the record, and writes it before the next', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({
    postDeployScript: 'touch "$SVC_DEPLOY_PATH/ran"; echo "after [$SVC_PREVIOUS_DEPLOY_ID]"'
  })
  const first = await stage.deploy(project, { a: '1' })
  const run = await stage.push(project, { a: '2' })
  // The first write succeeds. From the extraction on, every write fails.
  const { write } = stage.store
  let disk: ReturnType<typeof fillDisk> | null = null
  stage.store.write = async work => {
    const result = await write(work)
    if (stage.row(run.deployId).steps.some(({ name }) => name === 'extract')) {
      stage.store.write = write
      disk = fillDisk(stage)
    }
    return result
  }
  const end = await run.finished
  t.match(end, { status: 'success', fileCount: 1 })
  t.equal(stage.row(run.deployId).status, 'running', 'the database still says running')
  t.match(stage.deployer.unrecorded(run.deployId), deploySays.notRecordedYet)
  t.equal(stage.deployer.unrecorded(first.id), null)

  const listed = createListed(stage.store, stage.deployer)
  t.equal(listed.find(run.deployId)?.status, 'success')
  t.equal(listed.find('dep_none'), undefined)
  t.strictSame(
    listed.list({ limit: 10 }).map(({ status }) => status),
    ['success', 'success']
  )
  t.strictSame(
    listed.list({ limit: 10, status: 'success' }).map(({ id }) => id),
    [run.deployId, first.id]
  )
  t.strictSame(listed.list({ limit: 10, status: 'success', before: first.id }), [])
  t.strictSame(listed.list({ limit: 10, status: 'running' }), [])
  t.strictSame(
    [listed.count({}), listed.count({ status: 'running' }), listed.count({ status: 'success', projectId: project.id })],
    [2, 0, 2]
  )

  await t.rejects(stage.deployer.cancel(run.deployId, admin), { code: 'already_finished', message: /success/ })
  await t.rejects(stage.deployer.mark(run.deployId, 'failed', { actor: admin }), { code: 'disk_full' })
  await t.rejects(stage.push(project, { a: '3' }), { code: 'disk_full' })

  t.ok(disk)
  ;(disk as ReturnType<typeof fillDisk> | null)?.hasRoom()
  const next = await stage.deploy(project, { a: '3' })
  t.match(stage.row(run.deployId), { status: 'success', placed: 2, duration: end.duration })
  t.match(await stage.output(next.id), `after [${run.deployId}]`, 'the next deployment finds it recorded')
  t.equal(next.placed, 3)
  t.equal(stage.deployer.unrecorded(run.deployId), null)
})

t.test('a stop writes kept results; after a kill, the journal replaces them', async t => {
  for (const isKilled of [false, true]) {
    const stage = await deployStage(t)
    const project = await stage.addProject()
    const run = await stage.push(project, { a: '1' })
    const { write } = stage.store
    stage.store.write = async work => {
      const result = await write(work)
      if (stage.row(run.deployId).steps.some(({ name }) => name === 'extract')) {
        stage.store.write = write
        fillDisk(stage)
      }
      return result
    }
    t.match(await run.finished, { status: 'success' })
    stage.store.write = write
    if (!isKilled) await stage.deployer.stop({ wait: true })
    const after = await stage.restart()
    t.match(after.row(run.deployId), { status: isKilled ? 'failed' : 'success', placed: 1, fileCount: 1 })
    if (isKilled)
      t.match(
        await after.output(run.deployId),
        matching(
          deploySays.succeeded,
          '\n',
          deploySays.filesStayForRollback,
          '✗ ',
          deploySays.restartedWhileRunning,
          /\n$/
        )
      )
  }
})

t.test('gives up a result that can never be written, without affecting others', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'exit 1' })
  const { id } = await stage.deploy(project, { a: '1' })
  const ends = createEnds(stage)
  t.match(await ends.record(stage.row(id), { ...outcome, cause: 'end' }), { id })
  t.match(stage.faults, [[deploySays.notRecorded]], 'a failed deployment cannot fail again')
  t.strictSame(ends.kept(), [])
  await ends.settle()
})

t.test('a start with a full disk continues and records its results later', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const { id } = await before.deploy(project, { a: '1' })
  await before.store.write(tx => updateDeployment(tx, id, { status: 'running' }))
  const ends = createEnds(before)
  const disk = fillDisk(before)
  await ends.record({ ...before.row(id), status: 'failed' }, { ...outcome, cause: 'restart' })
  t.equal(ends.current(before.row(id)).status, 'failed')
  await t.rejects(ends.settle(), { code: 'disk_full' })
  disk.hasRoom()
  await ends.settle()
  t.equal(before.row(id).status, 'failed')
})

t.test('lists, counts, pages and filters include kept results', async t => {
  const { store } = await openStage(t)
  const day = (n: number): string => `2026-01-0${n}T00:00:00.000Z`
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id, deployPath: `/srv/${id}`, token: id }))
    insertDeployment(tx, aDeployment({ id: 'dep_1', startTime: day(1) }))
    insertDeployment(tx, aDeployment({ id: 'dep_2', startTime: day(2), status: 'running' }))
    insertDeployment(tx, aDeployment({ id: 'dep_3', startTime: day(3), status: 'running', projectId: 'proj_b' }))
    insertDeployment(tx, aDeployment({ id: 'dep_4', startTime: day(4) }))
  })
  const plain = createListed(store, { current: row => row, kept: () => [] })
  const end: DeploymentRow = { ...(plain.find('dep_2') as DeploymentRow), status: 'success', duration: '1.00s' }
  const deleted = aDeployment({ id: 'dep_gone' })
  const listed = createListed(store, { current: row => (row.id === end.id ? end : row), kept: () => [deleted, end] })
  const ids = (query: Parameters<typeof listed.list>[0]): string[] =>
    listed.list(query).map(({ id, status }) => `${id} ${status}`)

  t.strictSame(ids({ limit: 9 }), ['dep_4 success', 'dep_3 running', 'dep_2 success', 'dep_1 success'])
  t.strictSame(ids({ limit: 2, status: 'success' }), ['dep_4 success', 'dep_2 success'])
  t.strictSame(ids({ limit: 9, status: 'success', before: 'dep_4' }), ['dep_2 success', 'dep_1 success'])
  t.strictSame(ids({ limit: 9, status: 'success', before: 'dep_2' }), ['dep_1 success'])
  t.strictSame(ids({ limit: 9, status: 'running' }), ['dep_3 running'])
  t.strictSame(ids({ limit: 9, status: 'success', projectId: 'proj_b' }), [])
  t.equal(listed.find('dep_2')?.duration, '1.00s')
  t.equal(listed.find('dep_gone'), undefined)
  t.strictSame([listed.count({}), listed.count({ status: 'success' }), listed.count({ status: 'running' })], [4, 3, 1])
  t.strictSame([plain.count({ status: 'success' }), plain.count({ status: 'running', projectId: 'proj_b' })], [2, 1])
})
