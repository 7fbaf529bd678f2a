import t from 'tap'
import type { Project } from '../../../lib/model/project.js'
import type { Transaction } from '../../../lib/store/database.js'
import { deleteDeploymentsOf, insertDeployment, updateDeployment } from '../../../lib/store/tables/deployments.js'
import { keepProjects } from '../../../lib/store/tables/kept-projects.js'
import { deleteLabel, insertLabel } from '../../../lib/store/tables/labels.js'
import { deleteProject, insertProject, listProjects, updateProject } from '../../../lib/store/tables/projects.js'
import { realDisk } from '../../../lib/store/disk.js'
import { createRandom } from '../../support/random.js'
import { aDeployment, aLabel, aProject, aStore, countedSummaries, createFaultyDisk, summariesOf } from '../stage.js'

const labelKinds = ['category', 'tag'] as const
const at = (n: number): string => new Date(1.7e12 + n * 1000).toISOString()

t.test('equals the database after any writes and rollbacks', async t => {
  const store = await aStore(t)
  const random = createRandom(5)
  const all = keepProjects(store)
  const ids: string[] = []
  const deployIds: string[] = []
  let next = 0

  const changes: Array<(tx: Transaction) => void> = [
    tx => {
      ids.push(`proj_${++next}`)
      insertProject(
        tx,
        aProject({ id: `proj_${next}`, createdAt: at(random.below(50)), tagIds: random.some(1, () => 'tag_a') })
      )
    },
    tx => void updateProject(tx, random.oneOf(ids), { name: `Name ${++next}`, pinned: random.below(2) === 0 }),
    tx =>
      void updateProject(tx, random.oneOf(ids), {
        tagIds: random.some(2, () => random.oneOf(['tag_a', 'tag_b'])),
        categoryId: 'category_a'
      }),
    tx => {
      deployIds.push(`dep_${++next}`)
      insertDeployment(
        tx,
        aDeployment({ id: `dep_${next}`, projectId: random.oneOf(ids), status: 'queued', startTime: at(next) })
      )
    },
    tx =>
      void (
        deployIds.length > 0 &&
        updateDeployment(tx, random.oneOf(deployIds), { status: random.oneOf(['running', 'success', 'failed']) })
      ),
    tx => {
      if (ids.length < 5) return
      const [id] = ids.splice(random.below(ids.length), 1) as [string]
      deleteProject(tx, id)
      for (const gone of deleteDeploymentsOf(tx, id)) deployIds.splice(deployIds.indexOf(gone), 1)
    },
    tx => {
      for (const kind of labelKinds) {
        deleteLabel(tx, kind, `${kind}_a`)
        insertLabel(tx, kind, aLabel({ id: `${kind}_a`, name: 'A' }))
      }
    }
  ]

  await store.write(tx => {
    for (const kind of labelKinds)
      for (const one of ['a', 'b']) insertLabel(tx, kind, aLabel({ id: `${kind}_${one}`, name: one }))
    changes[0]?.(tx)
  })
  for (let step = 0; step < 400; step++) {
    const [keptIds, keptDeployIds] = [[...ids], [...deployIds]]
    const isRolledBack = random.below(5) === 0
    await store
      .write(tx => {
        for (const change of random.some(4, () => random.oneOf(changes))) change(tx)
        // A list that is read during a write is not cached.
        if (random.below(4) === 0) t.same(all(), listProjects(tx))
        if (isRolledBack) throw new Error('rolled back')
      })
      .catch(() => {
        ids.splice(0, Infinity, ...keptIds)
        deployIds.splice(0, Infinity, ...keptDeployIds)
      })
    if (random.below(3) > 0) continue
    t.strictSame(all(), listProjects(store), `step ${step}`)
    t.same(summariesOf(store), countedSummaries(store), `step ${step}`)
  }
})

t.test('forgets rows of a write that was refused later', async t => {
  const disk = createFaultyDisk(realDisk)
  const store = await aStore(t, { disk })
  await store.write(tx => insertProject(tx, aProject()))
  const all = keepProjects(store)
  const names = (projects: readonly Project[]): string[] => projects.map(({ name }) => name)
  t.same(names(all()), ['Site'])
  disk.failAt = disk.steps + 1
  const refused = t.rejects(
    store.write(tx => updateProject(tx, 'proj_a', { name: 'New' })),
    { code: 'write_failed' }
  )
  t.same(names(all()), ['New'])
  await refused
  t.same(names(all()), ['Site'])
})

t.test('reads all rows after too many changes, and keeps unchanged objects otherwise', async t => {
  const store = await aStore(t)
  const all = keepProjects(store)
  await store.write(tx => {
    for (let n = 0; n < 1200; n++) insertProject(tx, aProject({ id: `proj_${n}`, createdAt: at(n) }))
  })
  const first = all()
  t.equal(first.length, 1200)
  await store.write(tx => updateProject(tx, 'proj_7', { name: 'New' }))
  const second = all()
  t.equal(second.filter((project, index) => project !== first[index]).length, 1)
  await store.write(tx => tx.run("UPDATE projects SET name = 'All'"))
  t.ok(all().every(({ name }) => name === 'All'))
})
