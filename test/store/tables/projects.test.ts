import t from 'tap'
import type { DeploymentStatus } from '../../../lib/model/deployment.js'
import type { ProjectStatus } from '../../../lib/model/project.js'
import { deleteDeploymentsOf, insertDeployment } from '../../../lib/store/tables/deployments.js'
import { insertLabel } from '../../../lib/store/tables/labels.js'
import {
  countProjects,
  deleteProject,
  findProject,
  findProjectByToken,
  insertProject,
  listPinnedProjects,
  listProjects,
  newestProject,
  projectAt,
  readProjects,
  updateProject
} from '../../../lib/store/tables/projects.js'
import { aDeployment, aLabel, aProject, aStore } from '../stage.js'

t.test('reads a project as it was written, by id and by token', async t => {
  const store = await aStore(t)
  const project = aProject({
    description: 'ü',
    preDeployScript: 'a\nb',
    pm2AppName: 'app',
    pinned: true,
    tagIds: ['tag_a', 'tag_b']
  })
  await store.write(tx => {
    for (const id of ['tag_a', 'tag_b']) insertLabel(tx, 'tag', aLabel({ id, name: id }))
    insertProject(tx, project)
  })
  t.strictSame(findProject(store, 'proj_a'), project)
  t.strictSame(findProjectByToken(store, 'token-proj_a'), project)
  t.equal(findProject(store, 'none'), undefined)
  t.equal(findProjectByToken(store, 'none'), undefined)
})

t.test('writes the fields that are present in an update, and tagIds as a whole', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const id of ['tag_a', 'tag_b']) insertLabel(tx, 'tag', aLabel({ id, name: id }))
    insertProject(tx, aProject({ tagIds: ['tag_a'], allowClientScripts: true, pm2AppName: 'app' }))
  })
  await store.write(tx => {
    t.equal(updateProject(tx, 'proj_a', { name: 'New', allowClientScripts: null, pm2AppName: null }), true)
    t.equal(updateProject(tx, 'none', { name: 'New' }), false)
    t.equal(updateProject(tx, 'none', { tagIds: ['tag_a'] }), false)
  })
  t.match(findProject(store, 'proj_a'), { name: 'New', allowClientScripts: null, pm2AppName: null, tagIds: ['tag_a'] })
  await store.write(tx => updateProject(tx, 'proj_a', { tagIds: ['tag_b', 'tag_b'] }))
  t.same(findProject(store, 'proj_a')?.tagIds, ['tag_b'])
  await store.write(tx => updateProject(tx, 'proj_a', { tagIds: [] }))
  t.same(findProject(store, 'proj_a')?.tagIds, [])
})

t.test('refuses an unknown category or tag in the database', async t => {
  const store = await aStore(t)
  await t.rejects(
    store.write(tx => insertProject(tx, aProject({ tagIds: ['none'] }))),
    /FOREIGN KEY/
  )
  await t.rejects(
    store.write(tx => insertProject(tx, aProject({ categoryId: 'none' }))),
    /FOREIGN KEY/
  )
  t.same(listProjects(store), [])
})

t.test('lists projects newest created first with their positions', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const id of ['tag_a', 'tag_b']) insertLabel(tx, 'tag', aLabel({ id, name: id }))
    insertProject(tx, aProject({ id: 'proj_1', createdAt: '2026-01-01', tagIds: ['tag_a'] }))
    insertProject(tx, aProject({ id: 'proj_2', createdAt: '2026-01-03', tagIds: ['tag_a', 'tag_b'] }))
    insertProject(tx, aProject({ id: 'proj_3', createdAt: '2026-01-02' }))
    insertProject(tx, aProject({ id: 'proj_4', createdAt: '2026-01-02', tagIds: ['tag_b'] }))
  })
  const places = new Map<string, number>()
  const listed = listProjects(store, ({ id }, position) => void places.set(id, position))
  t.same(
    listed.map(({ id }) => id),
    ['proj_2', 'proj_4', 'proj_3', 'proj_1']
  )
  for (const project of listed) t.same(projectAt(store, places.get(project.id) as number), project)
  t.equal(projectAt(store, 99), undefined)
  t.strictSame(
    readProjects(store, ['id', 'status']),
    listed.map(({ id, status }) => ({ id, status }))
  )
  t.equal(countProjects(store), 4)
  t.same(newestProject(store), listed[0])
})

t.test('lists pinned projects newest created first', async t => {
  const store = await aStore(t)
  t.equal(newestProject(store), undefined)
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'proj_1', createdAt: '2026-01-01', pinned: true }))
    insertProject(tx, aProject({ id: 'proj_2', createdAt: '2026-01-03' }))
    insertProject(tx, aProject({ id: 'proj_3', createdAt: '2026-01-02', pinned: true }))
  })
  t.same(
    listPinnedProjects(store).map(({ id }) => id),
    ['proj_3', 'proj_1']
  )
})

const histories: Array<[history: DeploymentStatus[], status: ProjectStatus]> = [
  [[], 'idle'],
  [['success'], 'success'],
  [['success', 'failed'], 'failed'],
  [['failed', 'success'], 'success'],
  [['success', 'queued'], 'running'],
  [['running', 'queued'], 'running'],
  [['running', 'failed'], 'running'],
  [['failed', 'running'], 'running']
]

for (const [history, status] of histories) {
  t.test(`returns ${status} for a project whose deployments were ${history.join(', ') || 'none'}`, async t => {
    const store = await aStore(t)
    await store.write(tx => {
      insertProject(tx, aProject())
      history.forEach((status, n) => {
        insertDeployment(tx, aDeployment({ id: `dep_${n}`, status, startTime: `2026-01-0${n + 1}T00:00:00.000Z` }))
      })
    })
    const lastDeployAt = history.length === 0 ? null : `2026-01-0${history.length}T00:00:00.000Z`
    t.match(findProject(store, 'proj_a'), { status, lastDeployAt })
  })
}

t.test('removes a project together with its deployments, in either order, and not without them', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertProject(tx, aProject())
    insertDeployment(tx, aDeployment())
  })
  await t.rejects(
    store.write(tx => deleteProject(tx, 'proj_a')),
    /FOREIGN KEY/
  )
  t.ok(findProject(store, 'proj_a'))
  await store.write(tx => {
    t.equal(deleteProject(tx, 'proj_a'), true)
    t.same(deleteDeploymentsOf(tx, 'proj_a'), ['dep_a'])
    t.equal(deleteProject(tx, 'proj_a'), false)
  })
  t.equal(findProject(store, 'proj_a'), undefined)
})
