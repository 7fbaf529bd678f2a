import t from 'tap'
import type { Lock, MaintenanceRow } from '../../../../lib/model/lock.js'
import {
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
} from '../../../../lib/core/store/tables/locks.js'
import { deleteProject, insertProject } from '../../../../lib/core/store/tables/projects.js'
import { aProject, aStore } from '../stage.js'

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
