import t from 'tap'
import type { Test } from 'tap'
import type { DeploymentRow, DeploymentStep } from '../../../lib/model/deployment.js'
import type { Store } from '../../../lib/store/database.js'
import {
  countBrokenProjects,
  findBrokenProject,
  lastGoodDeployment,
  listBrokenProjects
} from '../../../lib/store/tables/broken-projects.js'
import {
  deleteDeploymentsOf,
  findDeployment,
  insertDeployment,
  updateDeployment
} from '../../../lib/store/tables/deployments.js'
import { deleteProject, insertProject } from '../../../lib/store/tables/projects.js'
import { aDeployment, aProject, aStore, countedSummaries, summariesOf } from '../stage.js'

const at = '2026-01-01T00:00:00.000Z'
const postDeploy = (status: DeploymentStep['status']): DeploymentStep[] => [
  { name: 'postDeploy', status, startedAt: at, endedAt: at }
]
const script = (async: boolean): DeploymentRow['scripts'] => [
  { step: 'postDeploy', source: 'platform', script: 'x', async }
]

/** The deployments of a history, one letter each. */
const kinds: Record<string, Partial<DeploymentRow>> = {
  s: { status: 'success' },
  f: { status: 'failed' },
  q: { status: 'queued' },
  r: { status: 'running' },
  /** A script in the background: failed, still running, succeeded. */
  b: { status: 'success', steps: postDeploy('failed'), scripts: script(true) },
  w: { status: 'success', steps: postDeploy('running'), scripts: script(true) },
  e: { status: 'success', steps: postDeploy('success'), scripts: script(true) },
  /** Corrected by hand after its script had failed. */
  c: { status: 'success', steps: postDeploy('failed'), scripts: script(false) }
}

const second = (n: number): string => `2026-01-01T00:00:${String(n).padStart(2, '0')}.000Z`

async function insertHistory(store: Store, projectId: string, history: string): Promise<void> {
  await store.write(tx => {
    insertProject(
      tx,
      aProject({ id: projectId, name: `Shop ${projectId}`, token: projectId, deployPath: `/srv/${projectId}` })
    )
    for (const [n, kind] of [...history].entries()) {
      insertDeployment(tx, aDeployment({ id: `${projectId}_${n}`, projectId, startTime: second(n), ...kinds[kind] }))
    }
  })
}

/** Oldest first: the deployment by which the project is broken, and the one since which it is. */
const histories: Array<[history: string, broken: number | null, since?: number]> = [
  ['', null],
  ['s', null],
  ['f', 0, 0],
  ['q', null],
  ['r', null],
  ['fq', 0, 0],
  ['fr', 0, 0],
  ['sf', 1, 1],
  ['fs', null],
  ['sfff', 3, 1],
  ['fsff', 3, 2],
  ['ffrq', 1, 0],
  ['sr', null],
  ['sfs', null],
  ['b', 0, 0],
  ['sb', 1, 1],
  ['bs', null],
  ['bf', 1, 0],
  ['fb', 1, 0],
  ['fw', null],
  ['fe', null],
  ['fc', null],
  ['sfbr', 2, 1]
]

t.test('marks a project as broken since its first failure after the last success, by the last one', async t => {
  for (const [history, broken, since] of histories) {
    await t.test(history || 'no deployment', async t => {
      const store = await aStore(t)
      await insertHistory(store, 'a', history)
      const expected =
        broken === null
          ? undefined
          : {
              projectId: 'a',
              projectName: 'Shop a',
              projectEnv: 'production',
              deployId: `a_${broken}`,
              since: second(since as number)
            }
      t.strictSame(findBrokenProject(store, 'a'), expected)
      t.strictSame(listBrokenProjects(store, 10), expected === undefined ? [] : [expected])
      t.equal(countBrokenProjects(store), expected === undefined ? 0 : 1)
      const good = Math.max(...['s', 'w', 'e', 'c'].map(kind => history.lastIndexOf(kind)))
      t.equal(lastGoodDeployment(store, 'a')?.id, good === -1 ? undefined : `a_${good}`)
      t.same(summariesOf(store), countedSummaries(store))
    })
  }
})

t.test('lists those that have been broken for the longest first, with a limit', async t => {
  const store = await aStore(t)
  for (const [id, history] of Object.entries({ a: 'sssf', b: 'sf', c: 'ssff', d: 'fs' }))
    await insertHistory(store, id, history)
  t.same(
    listBrokenProjects(store, 10).map(({ projectId }) => projectId),
    ['b', 'c', 'a']
  )
  t.same(
    listBrokenProjects(store, 2).map(({ projectId }) => projectId),
    ['b', 'c']
  )
  t.equal(countBrokenProjects(store), 3)
})

/** Changes of one project's deployments, and the deployment by which the project is then broken. */
const changes: Array<[what: string, id: string, patch: Partial<DeploymentRow>, broken: string | undefined]> = [
  ['it is running', 'a_1', { status: 'running' }, undefined],
  ['it succeeds with a script in the background', 'a_1', { status: 'success', ...kinds['w'] }, undefined],
  ['that script fails', 'a_1', { steps: postDeploy('failed') }, 'a_1'],
  ['an earlier one is corrected', 'a_0', { status: 'failed' }, 'a_1'],
  ['it is corrected to failed', 'a_1', { status: 'failed' }, 'a_1'],
  ['its script is recorded as a good one', 'a_1', { status: 'success', steps: postDeploy('success') }, undefined]
]

t.test('follows each change of a deployment', async t => {
  const store = await aStore(t)
  await insertHistory(store, 'a', 'sq')
  for (const [what, id, patch, broken] of changes) {
    await store.write(tx => updateDeployment(tx, id, patch))
    t.equal(findBrokenProject(store, 'a')?.deployId, broken, what)
    t.same(summariesOf(store), countedSummaries(store), what)
  }
  t.notOk('outcome' in (findDeployment(store, 'a_1') as object), 'a record has no column of the queries')
})

t.test('ignores removed deployments', async t => {
  const store = await aStore(t)
  await insertHistory(store, 'a', 'sff')
  await insertHistory(store, 'b', 'f')
  await store.write(tx => tx.run('DELETE FROM deployments WHERE id = ?', 'a_2'))
  t.equal(findBrokenProject(store, 'a')?.deployId, 'a_1')
  await store.write(tx => void deleteDeploymentsOf(tx, 'a'))
  t.equal(findBrokenProject(store, 'a'), undefined)
  await store.write(tx => {
    deleteProject(tx, 'b')
    deleteDeploymentsOf(tx, 'b')
  })
  t.equal(countBrokenProjects(store), 0)
})

t.test('with many deployments, what is broken reads an index, and sorts nothing', async (t: Test) => {
  const store = await aStore(t)
  const plan = (sql: string): string =>
    store
      .all(`EXPLAIN QUERY PLAN ${sql}`)
      .map(({ detail }) => detail)
      .join('; ')
  const list = plan(`SELECT broken.projectId, projects.name FROM brokenProjects AS broken
    JOIN projects ON projects.id = broken.projectId ORDER BY broken.since, broken.projectId LIMIT 9`)
  t.match(list, /brokenBySince/)
  t.notMatch(list, /TEMP B-TREE|SCAN projects/)
  const good = plan(
    `SELECT * FROM deployments WHERE projectId = 'a' AND outcome = 1 ORDER BY orderedAt DESC, position DESC LIMIT 1`
  )
  t.match(good, /deploymentsByOutcome/)
  t.notMatch(good, /TEMP B-TREE/)
})
