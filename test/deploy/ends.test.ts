import t from 'tap'
import { Refusal } from '../../lib/base/errors.js'
import { createEnds, createListed } from '../../lib/deploy/ends.js'
import type { Outcome } from '../../lib/deploy/record.js'
import { insertDeployment, updateDeployment } from '../../lib/core/store/tables/deployments.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { deploySays } from '../support/sentences/deploy.js'
import { matching } from '../support/sentences/matching.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import { aDeployment, aProject } from '../core/store/stage.js'
import { openStage } from '../support/store.js'

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
