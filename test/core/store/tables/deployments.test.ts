import t, { type Test } from 'tap'
import type { DeploymentStatus, ScriptProcess } from '../../../../lib/model/deployment.js'
import type { Store } from '../../../../lib/core/store/database.js'
import {
  addDeployment,
  countDeployments,
  deleteDeploymentsOf,
  deleteScriptProcess,
  findDeployment,
  insertDeployment,
  insertScriptProcess,
  latestSuccessWithArchive,
  listDeployments,
  listScriptProcesses,
  liveDeployment,
  newestOfEvery,
  placeDeployment,
  isDeploying,
  unfinishedDeployments,
  updateDeployment
} from '../../../../lib/core/store/tables/deployments.js'
import { findProject, insertProject } from '../../../../lib/core/store/tables/projects.js'
import { openStage } from '../../../support/store.js'
import { aDeployment, aProject, aStore } from '../stage.js'

type Row = [id: string, projectId: string, status: DeploymentStatus, startTime: string, hasArtifact?: boolean]

async function withRows(t: Test, rows: Row[]): Promise<Store> {
  const store = await aStore(t)
  await store.write(tx => {
    for (const id of new Set(rows.map(row => row[1]))) insertProject(tx, aProject({ id }))
    for (const [id, projectId, status, startTime, hasArtifact = true] of rows) {
      insertDeployment(tx, aDeployment({ id, projectId, status, startTime, hasArtifact }))
    }
  })
  return store
}

const ids = (rows: Array<{ id: string }>) => rows.map(({ id }) => id)

t.test('reads a record as it was written', async t => {
  const store = await withRows(t, [['dep_x', 'proj_a', 'failed', '2026-01-01']])
  const full = aDeployment({
    endTime: '2026-01-01',
    duration: '1.20s',
    rollbackOf: 'dep_x',
    message: 'ü',
    fileCount: 3,
    errorMessage: 'no',
    steps: [{ name: 'preDeploy', status: 'failed', startedAt: 'a', endedAt: 'b', exitCode: null }]
  })
  await store.write(tx => insertDeployment(tx, full))
  t.strictSame(findDeployment(store, 'dep_a'), full)
  t.equal(findDeployment(store, 'none'), undefined)
})

t.test('writes the fields that are present in an update, including null', async t => {
  const store = await withRows(t, [['dep_a', 'proj_a', 'running', '2026-01-01']])
  const before = findDeployment(store, 'dep_a')
  await store.write(tx => {
    t.equal(updateDeployment(tx, 'dep_a', { status: 'success', steps: [], actorIp: null, hasArtifact: false }), true)
    t.equal(updateDeployment(tx, 'dep_a', {}), true)
    t.equal(updateDeployment(tx, 'none', { status: 'failed' }), false)
    t.equal(updateDeployment(tx, 'none', {}), false)
  })
  t.strictSame(findDeployment(store, 'dep_a'), {
    ...before,
    status: 'success',
    steps: [],
    actorIp: null,
    hasArtifact: false
  })
})

const some: Row[] = [
  ['dep_1', 'proj_a', 'success', '2026-01-01'],
  ['dep_2', 'proj_b', 'failed', '2026-01-02'],
  ['dep_3', 'proj_a', 'success', '2026-01-02', false],
  ['dep_4', 'proj_a', 'failed', '2026-01-02'],
  ['dep_5', 'proj_a', 'queued', '2026-01-01'],
  ['dep_6', 'proj_b', 'running', '2026-01-03']
]

t.test('lists newest first, then by arrival, with filters', async t => {
  const store = await withRows(t, some)
  t.same(ids(listDeployments(store, { limit: 100 })), ['dep_6', 'dep_4', 'dep_3', 'dep_2', 'dep_5', 'dep_1'])
  t.same(ids(listDeployments(store, { limit: 2 })), ['dep_6', 'dep_4'])
  t.same(ids(listDeployments(store, { limit: 9, projectId: 'proj_a' })), ['dep_4', 'dep_3', 'dep_5', 'dep_1'])
  t.same(ids(listDeployments(store, { limit: 9, status: 'failed' })), ['dep_4', 'dep_2'])
  t.same(ids(listDeployments(store, { limit: 9, projectId: 'proj_a', status: 'success' })), ['dep_3', 'dep_1'])
  t.same(
    [{}, { projectId: 'proj_a' }, { status: 'failed' as const }, { projectId: 'none' }].map(filter =>
      countDeployments(store, filter)
    ),
    [6, 4, 2, 0]
  )
})

t.test('a deployment that begins now is the newest, whatever the clock says', async t => {
  const store = await withRows(t, [['dep_0', 'proj_a', 'success', '2026-01-01']])
  const add = (id: string, startTime: string): Promise<void> =>
    store.write(tx => addDeployment(tx, aDeployment({ id, startTime, status: 'success' })))
  await add('dep_1', '2038-01-01')
  await add('dep_2', '2026-01-02')
  await add('dep_3', '1970-01-01')
  t.same(ids(listDeployments(store, { limit: 9 })), ['dep_3', 'dep_2', 'dep_1', 'dep_0'])
  t.same(ids(listDeployments(store, { limit: 9, before: 'dep_2' })), ['dep_1', 'dep_0'])
  t.equal(findDeployment(store, 'dep_2')?.startTime, '2026-01-02', 'its time is true')
  t.equal(latestSuccessWithArchive(store, 'proj_a')?.id, 'dep_3')
  t.match(findProject(store, 'proj_a'), { lastDeployAt: '1970-01-01', status: 'success' })
  await store.write(tx => insertDeployment(tx, aDeployment({ id: 'dep_old', startTime: '2025-01-01' })))
  t.equal(ids(listDeployments(store, { limit: 9 })).at(-1), 'dep_old', 'an imported one keeps its time')
})

t.test('joins pages by `before` without a gap and refuses an unknown id', async t => {
  const store = await withRows(t, some)
  const all = ids(listDeployments(store, { limit: 100 }))
  const paged: string[] = []
  for (;;) {
    const before = paged.at(-1)
    const page = listDeployments(store, before === undefined ? { limit: 2 } : { limit: 2, before })
    if (page.length === 0) break
    paged.push(...ids(page))
  }
  t.same(paged, all)
  t.same(ids(listDeployments(store, { limit: 9, projectId: 'proj_a', before: 'dep_2' })), ['dep_5', 'dep_1'])
  t.throws(() => listDeployments(store, { limit: 1, before: 'none' }), { code: 'invalid_field', message: /before/ })
  const hidden = { limit: 1, before: 'dep_2', projects: ['proj_other'] }
  t.throws(() => listDeployments(store, hidden), { code: 'invalid_field' }, 'of a project that the caller may not see')
})

t.test('lists unfinished deployments in order of arrival, and successes newest first', async t => {
  const store = await withRows(t, some)
  t.same(ids(unfinishedDeployments(store)), ['dep_5', 'dep_6'])
  t.equal(isDeploying(store), true)
  await store.write(tx => void tx.run("UPDATE deployments SET heldFor = 'schedule' WHERE status = 'queued'"))
  t.equal(isDeploying(store), true)
  await store.write(tx => void tx.run("UPDATE deployments SET heldFor = 'confirm' WHERE status = 'running'"))
  t.equal(isDeploying(store), false, 'what waits for its time or for somebody does not deploy')
  t.equal(latestSuccessWithArchive(store, 'proj_a')?.id, 'dep_1')
  t.equal(latestSuccessWithArchive(store, 'proj_b'), undefined)
})

t.test('returns the last change of the target as live, whatever its status', async t => {
  const store = await withRows(t, some)
  t.equal(liveDeployment(store, 'proj_a'), undefined, 'nothing is known to be in the target')
  const place = (id: string, options?: { again: boolean }) => store.write(tx => placeDeployment(tx, id, options))
  await place('dep_4')
  await place('dep_2')
  await place('dep_1')
  await place('dep_4')
  t.match(liveDeployment(store, 'proj_a'), { id: 'dep_1', placed: 2 }, 'who has a number keeps it')
  t.match(liveDeployment(store, 'proj_b'), { id: 'dep_2', placed: 1 }, 'each project counts by itself')
  await place('dep_4', { again: true })
  t.match(liveDeployment(store, 'proj_a'), { id: 'dep_4', placed: 3 })
  await place('none')
})

t.test("a project's records are removed, and their ids given", async t => {
  const store = await withRows(t, some)
  t.same((await store.write(tx => deleteDeploymentsOf(tx, 'proj_a'))).sort(), ['dep_1', 'dep_3', 'dep_4', 'dep_5'])
  t.same(ids(listDeployments(store, { limit: 9 })), ['dep_6', 'dep_2'])
  t.same(await store.write(tx => deleteDeploymentsOf(tx, 'none')), [])
})

t.test('lists the newest, and at least some of every project', async t => {
  const often = Array.from({ length: 30 }, (_, index): Row => {
    return [`dep_o${String(index).padStart(2, '0')}`, 'proj_often', 'success', `2026-02-${10 + (index % 15)}`]
  })
  const store = await withRows(t, [...often, ...some])
  const newest = (wanted: Parameters<typeof newestOfEvery>[1]) => [...newestOfEvery(store, wanted)].flat()
  const listed = newest({ total: 8, each: 2 })
  t.same(listed.slice(0, 8), ids(listDeployments(store, { limit: 8 })))
  const rest = listDeployments(store, { limit: 100 }).slice(8)
  const ofOthers = ['proj_a', 'proj_b'].flatMap(projectId => ids(listDeployments(store, { limit: 2, projectId })))
  t.same(
    listed.slice(8),
    ids(rest).filter(id => ofOthers.includes(id))
  )
  t.equal(ofOthers.length, 4)
  t.same(
    newest({ total: 1, each: 3, projects: ['proj_a'] }),
    ids(listDeployments(store, { limit: 3, projectId: 'proj_a' }))
  )
  t.same(newest({ total: 5, each: 5, projects: [] }), [])

  const many = Array.from({ length: 250 }, (_, n): Row => [`dep_${n}`, `proj_${n}`, 'success', '2026-03-01'])
  const pages = [...newestOfEvery(await withRows(t, many), { total: 1, each: 9 })].map(page => page.length)
  t.same(pages, [0, 0, 0, ...Array.from({ length: 12 }, () => 20), 10], 'a limited number of rows at a time')
})

t.test('keeps one row for each running script', async t => {
  const { store } = await openStage(t)
  const script: ScriptProcess = {
    deployId: 'dep_a',
    step: 'preDeploy',
    pid: 7,
    startedAt: '18446744073709551615',
    bootId: 'b',
    home: '1:2'
  }
  const other: ScriptProcess = { ...script, step: 'postDeploy' }
  await store.write(tx => [other, script].forEach(one => insertScriptProcess(tx, one)))
  t.same(listScriptProcesses(store), [other, script], 'a start time is text, because it has 64 bits')
  await store.write(tx => insertScriptProcess(tx, { ...script, pid: 8 }))
  await store.write(tx => deleteScriptProcess(tx, other))
  t.same(listScriptProcesses(store), [{ ...script, pid: 8 }])
})
