import t from 'tap'
import { createListed } from '../../lib/deploy/listed.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { insertDeployment } from '../../lib/store/tables/deployments.js'
import { insertProject } from '../../lib/store/tables/projects.js'
import { aDeployment, aProject } from '../store/stage.js'
import { openStage } from '../support/store.js'

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
