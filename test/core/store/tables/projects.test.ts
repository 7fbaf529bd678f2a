import t, { type Test } from 'tap'
import type { DeploymentRow, DeploymentStatus, DeploymentStep } from '../../../../lib/model/deployment.js'
import type { LabelKind, Project, ProjectStatus } from '../../../../lib/model/project.js'
import type { LogSource } from '../../../../lib/model/log-source.js'
import { defaultGate } from '../../../../lib/model/policy.js'
import type { StoredVariable } from '../../../../lib/model/variable.js'
import type { Store, Transaction } from '../../../../lib/core/store/database.js'
import { realDisk } from '../../../../lib/core/store/disk.js'
import {
  deleteDeploymentsOf,
  findDeployment,
  insertDeployment,
  updateDeployment
} from '../../../../lib/core/store/tables/deployments.js'
import {
  countProjects,
  deleteLabel,
  deleteLogSource,
  deleteProject,
  deleteVariable,
  findBrokenProject,
  findLabel,
  findLabelByName,
  findLogSource,
  findProject,
  findProjectByToken,
  insertLabel,
  insertLogSource,
  insertProject,
  keepProjects,
  lastGoodDeployment,
  listAllLogSources,
  listBrokenProjects,
  listLabels,
  listLogSources,
  listPinnedProjects,
  listProjects,
  listSecrets,
  listVariables,
  newestProject,
  policiesWith,
  projectAt,
  putVariable,
  readProjects,
  updateLabel,
  updateLogSource,
  updateProject,
  deleteExpiredLocks,
  deleteLock,
  deleteMaintenance,
  findLock,
  findMaintenance,
  insertLock,
  insertMaintenance,
  listLocks,
  listMaintenance,
  locksOn
} from '../../../../lib/core/store/tables/projects.js'
import { createRandom } from '../../../support/random.js'
import { aDeployment, aLabel, aProject, aStore, countedSummaries, createFaultyDisk, summariesOf } from '../stage.js'
import type { Lock, MaintenanceRow } from '../../../../lib/model/marks.js'

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

t.test('lists the policies that contain a text as it is stored', async t => {
  const store = await aStore(t)
  const header = { Authorization: 'sealed:v1.x' }
  const policy = { gate: { ...defaultGate, after: [{ http: 'http://127.0.0.1/', header }] } }
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'proj_1', createdAt: '2026-01-01', policy }))
    insertProject(tx, aProject({ id: 'proj_2', createdAt: '2026-01-02', policy: {} }))
    insertProject(tx, aProject({ id: 'proj_3', createdAt: '2026-01-03', policy }))
  })
  t.strictSame(policiesWith(store, '"sealed:'), [
    { id: 'proj_3', policy },
    { id: 'proj_1', policy }
  ])
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

const atForBrokenProjects = '2026-01-01T00:00:00.000Z'
const postDeploy = (status: DeploymentStep['status']): DeploymentStep[] => [
  { name: 'postDeploy', status, startedAt: atForBrokenProjects, endedAt: atForBrokenProjects }
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
const historiesForBrokenProjects: Array<[history: string, broken: number | null, since?: number]> = [
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
  for (const [history, broken, since] of historiesForBrokenProjects) {
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
      t.strictSame(listBrokenProjects(store), expected === undefined ? [] : [expected])
      const good = Math.max(...['s', 'w', 'e', 'c'].map(kind => history.lastIndexOf(kind)))
      t.equal(lastGoodDeployment(store, 'a')?.id, good === -1 ? undefined : `a_${good}`)
      t.same(summariesOf(store), countedSummaries(store))
    })
  }
})

t.test('lists those that broke last first', async t => {
  const store = await aStore(t)
  for (const [id, history] of Object.entries({ a: 'sssf', b: 'sf', c: 'ssff', d: 'fs' }))
    await insertHistory(store, id, history)
  t.same(
    listBrokenProjects(store).map(({ projectId }) => projectId),
    ['a', 'c', 'b']
  )
  t.same(
    listBrokenProjects(store, ['b', 'c', 'd']).map(({ projectId }) => projectId),
    ['c', 'b'],
    'of a scope'
  )
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
  t.same(listBrokenProjects(store), [])
})

t.test('with many deployments, what is broken reads an index, and sorts nothing', async (t: Test) => {
  const store = await aStore(t)
  const plan = (sql: string): string =>
    store
      .all(`EXPLAIN QUERY PLAN ${sql}`)
      .map(({ detail }) => detail)
      .join('; ')
  const list = plan(`SELECT broken.projectId, projects.name FROM brokenProjects AS broken
    JOIN projects ON projects.id = broken.projectId ORDER BY broken.since DESC, broken.projectId DESC`)
  t.match(list, /brokenBySince/)
  t.notMatch(list, /TEMP B-TREE|SCAN projects/)
  const good = plan(
    `SELECT * FROM deployments WHERE projectId = 'a' AND outcome = 1 ORDER BY orderedAt DESC, position DESC LIMIT 1`
  )
  t.match(good, /deploymentsByOutcome/)
  t.notMatch(good, /TEMP B-TREE/)
})

for (const kind of ['category', 'tag'] satisfies LabelKind[]) {
  t.test(`reads a ${kind} as it was written, by id and by name regardless of case`, async t => {
    const store = await aStore(t)
    const label = aLabel({ name: 'Web Site', color: 'pink', sortOrder: -3 })
    await store.write(tx => insertLabel(tx, kind, label))
    t.strictSame(findLabel(store, kind, 'tag_a'), label)
    t.strictSame(findLabelByName(store, kind, 'WEB site'), label)
    t.equal(findLabelByName(store, kind, 'web'), undefined)
    t.equal(findLabel(store, kind === 'tag' ? 'category' : 'tag', 'tag_a'), undefined)
  })

  t.test(`refuses a second ${kind} of the same name, regardless of case`, async t => {
    const store = await aStore(t)
    await store.write(tx => insertLabel(tx, kind, aLabel()))
    await t.rejects(
      store.write(tx => insertLabel(tx, kind, aLabel({ id: 'tag_b', name: 'WEB' }))),
      /UNIQUE/
    )
  })

  t.test(`lists ${kind} labels by sortOrder, then by name, and counts their projects`, async t => {
    const store = await aStore(t)
    await store.write(tx => {
      insertLabel(tx, kind, aLabel({ id: 'b', name: 'b' }))
      insertLabel(tx, kind, aLabel({ id: 'A', name: 'A' }))
      insertLabel(tx, kind, aLabel({ id: 'first', name: 'z', sortOrder: -1 }))
      const carries = kind === 'tag' ? { tagIds: ['A'] } : { categoryId: 'A' }
      for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id, ...carries }))
    })
    t.same(
      listLabels(store, kind).map(({ id, projectCount }) => [id, projectCount]),
      [
        ['first', 0],
        ['A', 2],
        ['b', 0]
      ]
    )
    const inScope = (scope: string[]) =>
      listLabels(store, kind, scope).map(({ id, projectCount }) => [id, projectCount])
    t.same(inScope(['proj_b', 'proj_x']), [['A', 1]], 'in a scope: without the names of other labels')
    t.same(inScope([]), [])
  })

  t.test(`changes the present fields of a ${kind}, and removes it from its projects`, async t => {
    const store = await aStore(t)
    await store.write(tx => {
      insertLabel(tx, kind, aLabel())
      insertProject(tx, aProject(kind === 'tag' ? { tagIds: ['tag_a'] } : { categoryId: 'tag_a' }))
      t.equal(updateLabel(tx, kind, { id: 'tag_a', color: 'gray' }), true)
      t.equal(updateLabel(tx, kind, { id: 'none', color: 'gray' }), false)
    })
    t.match(findLabel(store, kind, 'tag_a'), { name: 'Web', color: 'gray', projectCount: 1 })
    await store.write(tx => {
      t.equal(deleteLabel(tx, kind, 'tag_a'), 1)
      t.equal(deleteLabel(tx, kind, 'tag_a'), 0)
    })
    t.match(findProject(store, 'proj_a'), { categoryId: null, tagIds: [] })
    t.same(listLabels(store, kind), [])
  })
}

const aVariable = (fields: Partial<StoredVariable> = {}): StoredVariable => ({
  projectId: 'proj_a',
  name: 'KEY',
  value: 'sealed',
  secret: true,
  updatedAt: '2026-01-02T03:04:05.678Z',
  ...fields
})

t.test('lists variables by name, and replaces one of the same name', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertProject(tx, aProject())
    for (const name of ['KEY', 'B', 'A']) putVariable(tx, aVariable({ name }))
    putVariable(tx, aVariable({ name: 'B', value: 'plain', secret: false }))
  })
  const [a, b] = [aVariable({ name: 'A' }), aVariable({ name: 'B', value: 'plain', secret: false })]
  t.strictSame(listVariables(store, 'proj_a'), [a, b, aVariable()])
  await store.write(tx => deleteVariable(tx, 'proj_a', 'KEY'))
  t.strictSame(listVariables(store, 'proj_a'), [a, b])
  t.strictSame(listVariables(store, 'proj_b'), [])
})

t.test('lists the secrets of all projects, and removes them with their project', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const projectId of ['proj_b', 'proj_a']) {
      insertProject(tx, aProject({ id: projectId }))
      putVariable(tx, aVariable({ projectId }))
      putVariable(tx, aVariable({ projectId, name: 'PLAIN', secret: false }))
    }
  })
  t.strictSame(listSecrets(store), [aVariable(), aVariable({ projectId: 'proj_b' })])
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.strictSame(listSecrets(store), [aVariable({ projectId: 'proj_b' })])
})

const aSource = (fields: Partial<LogSource> = {}): LogSource => ({
  id: 'log_a',
  projectId: 'proj_a',
  label: 'access',
  filePath: '/var/log/access.log',
  kind: 'json',
  sortOrder: 0,
  createdAt: '2026-01-02T03:04:05.678Z',
  updatedAt: '2026-01-02T03:04:05.678Z',
  ...fields
})
const idsOf = (sources: readonly LogSource[]): string[] => sources.map(({ id }) => id)

t.test('reads a source as it was written, changes and removes it', async t => {
  const store = await aStore(t)
  await store.write(tx => insertProject(tx, aProject()))
  await store.write(tx => insertLogSource(tx, aSource()))
  t.strictSame(findLogSource(store, 'log_a'), aSource())
  t.equal(await store.write(tx => updateLogSource(tx, 'log_a', { label: 'new', kind: 'plain' })), true)
  t.strictSame(findLogSource(store, 'log_a'), aSource({ label: 'new', kind: 'plain' }))
  t.equal(await store.write(tx => updateLogSource(tx, 'log_none', { label: 'new' })), false)
  t.equal(await store.write(tx => deleteLogSource(tx, 'log_a')), true)
  t.equal(await store.write(tx => deleteLogSource(tx, 'log_a')), false)
  t.equal(findLogSource(store, 'log_a'), undefined)
})

t.test('lists sources in their order, then as added, and removes them with their project', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id }))
    for (const [id, projectId, sortOrder] of [
      ['log_late', 'proj_a', 2],
      ['log_first', 'proj_a', 1],
      ['log_second', 'proj_a', 1],
      ['log_other', 'proj_b', 0]
    ] as const) {
      insertLogSource(tx, aSource({ id, projectId, sortOrder, filePath: `/${id}` }))
    }
  })
  t.same(idsOf(listLogSources(store, 'proj_a')), ['log_first', 'log_second', 'log_late'])
  t.same(idsOf(listAllLogSources(store)), ['log_first', 'log_second', 'log_late', 'log_other'])
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.same(idsOf(listAllLogSources(store)), ['log_other'])
})

const lock = (projectId: string | null, hour: number): Lock => ({
  projectId,
  kind: 'lock',
  owner: 'admin',
  reason: 'audit',
  createdAt: `2026-01-01T0${hour}:00:00.000Z`,
  expiresAt: `2026-01-02T0${hour}:00:00.000Z`
})
const [early, late] = ['2026-01-01T00:00:00.000Z', '2026-01-02T02:00:00.000Z']

t.test('lists locks in force, first that of the server', async t => {
  const store = await aStore(t)
  const [server, a, b] = [lock(null, 3), lock('proj_a', 2), lock('proj_b', 1)]
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id }))
    for (const each of [a, b, server]) insertLock(tx, each)
  })
  t.same(listLocks(store, early), [server, b, a])
  t.same(locksOn(store, 'proj_a', early), [server, a])
  t.same(listLocks(store, late), [server], 'a lock has expired at the instant of its end')
  t.same(findLock(store, { projectId: null, kind: 'lock' }), server)
  t.same(findLock(store, b), b)

  await store.write(tx => deleteExpiredLocks(tx, late))
  t.equal(findLock(store, a), undefined)
  await store.write(tx => deleteLock(tx, server))
  t.same(listLocks(store, early), [])
})

t.test('a project and the server have at most one lock of a kind, and a deleted project keeps no lock', async t => {
  const store = await aStore(t)
  await store.write(tx => insertProject(tx, aProject({ id: 'proj_a' })))
  for (const place of ['proj_a', null]) {
    await store.write(tx => insertLock(tx, lock(place, 1)))
    await t.rejects(
      store.write(tx => insertLock(tx, lock(place, 2))),
      { message: /UNIQUE/ }
    )
  }
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.same(listLocks(store, early), [lock(null, 1)])
})

const row = (projectId: string, hour: number, reason: string | null = null): MaintenanceRow => ({
  projectId,
  since: `2026-01-01T0${hour}:00:00.000Z`,
  by: 'admin',
  reason,
  path: '.maintenance',
  sha256: 'ab'
})

t.test('keeps the maintenance of projects, beside their locks', async t => {
  const store = await aStore(t)
  const [a, b] = [row('proj_a', 2, 'disk'), row('proj_b', 1)]
  const expiresAt = '2027-01-01T00:00:00.000Z'
  const lock = {
    projectId: 'proj_a',
    kind: 'lock',
    owner: 'admin',
    reason: 'x',
    createdAt: a.since,
    expiresAt
  } as const
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id }))
    insertMaintenance(tx, a)
    insertMaintenance(tx, b)
    insertLock(tx, lock)
  })
  t.strictSame(listMaintenance(store), [b, a], 'the oldest first')
  t.strictSame(findMaintenance(store, 'proj_a'), a)
  const now = '2026-06-01T00:00:00.000Z'
  t.same(listLocks(store, now), [lock], 'it is not a lock')
  t.same(locksOn(store, 'proj_b', now), [])
  await store.write(tx => deleteExpiredLocks(tx, '2999-01-01T00:00:00.000Z'))
  t.equal(listMaintenance(store).length, 2, 'it does not expire')
  await t.rejects(
    store.write(tx => insertMaintenance(tx, a)),
    { message: /UNIQUE/ }
  )
  await store.write(tx => deleteMaintenance(tx, 'proj_b'))
  t.equal(findMaintenance(store, 'proj_b'), undefined)
  await store.write(tx => deleteProject(tx, 'proj_a'))
  t.same(listMaintenance(store), [], 'it is removed with its project')
})
