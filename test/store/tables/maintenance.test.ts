import t from 'tap'
import type { MaintenanceRow } from '../../../lib/model/maintenance.js'
import { deleteExpiredLocks, insertLock, listLocks, locksOn } from '../../../lib/store/tables/locks.js'
import {
  deleteMaintenance,
  findMaintenance,
  insertMaintenance,
  listMaintenance
} from '../../../lib/store/tables/maintenance.js'
import { deleteProject, insertProject } from '../../../lib/store/tables/projects.js'
import { aProject, aStore } from '../stage.js'

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
