import { cpSync, existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openStore } from '../../lib/store/durable-store.js'
import { realDisk } from '../../lib/store/disk.js'
import { createMemory } from '../../lib/store/memory.js'
import { schemaVersion, versionOf } from '../../lib/store/schema.js'
import { loadSqlite } from '../../lib/store/sqlite.js'
import { readSettings, writeSetting } from '../../lib/store/tables/settings.js'
import type { DeploymentStep } from '../../lib/model/deployment.js'
import { findDeployment, insertDeployment, liveDeployment } from '../../lib/store/tables/deployments.js'
import { insertLabel } from '../../lib/store/tables/labels.js'
import { findProject, insertProject } from '../../lib/store/tables/projects.js'
import { olderDatabase, olderVersion } from '../support/older-database.js'
import { aDeployment, aLabel, aProject, countedSummaries, createFaultyDisk, summariesOf } from './stage.js'

/** Returns a data directory of the previous schema after a kill: `a` is in svc.db, `b` in its redo log. */
async function olderHome(directory: string): Promise<void> {
  const store = await openStore({ directory })
  await store.write(tx => {
    writeSetting(tx, 'a', '1')
    insertLabel(tx, 'tag', aLabel())
    insertProject(tx, aProject({ tagIds: ['tag_a'] }))
    insertProject(tx, aProject({ id: 'proj_b' }))
    insertDeployment(tx, aDeployment())
    insertDeployment(tx, aDeployment({ id: 'dep_b', status: 'failed', startTime: '2026-01-03T00:00:00.000Z' }))
  })
  await store.checkpoint()
  await store.write(tx => writeSetting(tx, 'b', '2'))
  const files = ['svc.db', 'svc.db.redo'].map(name => [name, readFileSync(join(directory, name))] as const)
  await store.close()
  for (const [name, bytes] of files) writeFileSync(join(directory, name), bytes)
  await olderDatabase(join(directory, 'svc.db'))
}

async function versionIn(path: string): Promise<number> {
  const memory = createMemory(await loadSqlite(), readFileSync(path))
  try {
    return versionOf(memory)
  } finally {
    memory.close()
  }
}

t.test('keeps a complete copy of the old database in an upgrade', async t => {
  const directory = t.testdir({})
  await olderHome(directory)
  const store = await openStore({ directory })
  t.strictSame(readSettings(store), { a: '1', b: '2' })
  await store.close()
  t.equal(await versionIn(join(directory, 'svc.db')), schemaVersion)
  const kept = join(directory, `svc.db.schema-${olderVersion}`)
  t.equal(await versionIn(kept), olderVersion)
  const memory = createMemory(await loadSqlite(), readFileSync(kept))
  t.teardown(() => memory.close())
  t.strictSame(readSettings(memory), { a: '1', b: '2' }, 'with what the redo log had')
  t.equal(memory.pragma('integrity_check'), 'ok')

  await t.test('has nothing to do at the next start', async t => {
    const before = readFileSync(kept)
    await (await openStore({ directory })).close()
    t.ok(readFileSync(kept).equals(before))
  })
})

t.test('maintains summaries of deployments and tags after an upgrade', async t => {
  const directory = t.testdir({})
  await olderHome(directory)
  const store = await openStore({ directory })
  t.teardown(() => store.close())
  t.same(summariesOf(store), countedSummaries(store))
  t.match(findProject(store, 'proj_a'), {
    status: 'failed',
    lastDeployAt: '2026-01-03T00:00:00.000Z',
    tagIds: ['tag_a']
  })
  t.match(findProject(store, 'proj_b'), { status: 'idle', lastDeployAt: null, tagIds: [] })
})

t.test('completes an interrupted upgrade at the next start, whatever step failed', async t => {
  const top = t.testdir({ old: {} })
  await olderHome(join(top, 'old'))
  let isThrough = false
  let failAt = 0
  while (!isThrough) {
    failAt++
    const directory = join(top, `home-${failAt}`)
    cpSync(join(top, 'old'), directory, { recursive: true })
    const disk = Object.assign(createFaultyDisk(realDisk), { failAt, once: false })
    const store = await openStore({ directory, disk }).catch(() => null)
    isThrough = store !== null
    // The state after a kill: nothing more is written.
    disk.failAt = disk.failAt || 1
    const again = await openStore({ directory })
    t.strictSame(readSettings(again), { a: '1', b: '2' }, `step ${failAt}`)
    await again.write(tx => writeSetting(tx, 'c', '3'))
    await again.close()
    t.equal(await versionIn(join(directory, 'svc.db')), schemaVersion)
    t.ok(existsSync(join(directory, `svc.db.schema-${olderVersion}`)), 'the old one is kept')
    t.notOk(readdirSync(directory).some(name => name.endsWith('.tmp')))
    if (store !== null) await store.close()
  }
  t.ok(failAt > 8, `${failAt} steps`)
})

t.test('refuses an upgrade on a full disk and keeps the old database', async t => {
  const directory = t.testdir({})
  await olderHome(directory)
  const before = readFileSync(join(directory, 'svc.db'))
  const disk = Object.assign(createFaultyDisk(realDisk), { failAt: 1, once: false, code: 'ENOSPC' })
  await t.rejects(openStore({ directory, disk }))
  t.ok(readFileSync(join(directory, 'svc.db')).equals(before))
})

t.test('numbers the changes of a target in an upgrade, in order of arrival and whatever their status', async t => {
  const directory = t.testdir({})
  const store = await openStore({ directory })
  const at = '2026-01-01T00:00:00.000Z'
  const extracted = (status: 'success' | 'failed'): DeploymentStep[] => [
    { name: 'extract', status, startedAt: at, endedAt: at }
  ]
  await store.write(tx => {
    for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id, deployPath: `/srv/${id}`, token: id }))
    insertDeployment(
      tx,
      aDeployment({ id: 'dep_1', steps: extracted('success'), startTime: '2026-01-09T00:00:00.000Z' })
    )
    insertDeployment(tx, aDeployment({ id: 'dep_2', steps: extracted('failed') }))
    insertDeployment(tx, aDeployment({ id: 'dep_3', status: 'failed', steps: extracted('success') }))
    insertDeployment(tx, aDeployment({ id: 'dep_4', projectId: 'proj_b', steps: extracted('success') }))
    insertDeployment(tx, aDeployment({ id: 'dep_5', steps: [] }))
  })
  await store.close()
  await olderDatabase(join(directory, 'svc.db'))
  const upgraded = await openStore({ directory })
  t.teardown(() => upgraded.close())
  t.strictSame(
    ['dep_1', 'dep_2', 'dep_3', 'dep_4', 'dep_5'].map(id => findDeployment(upgraded, id)?.placed),
    [1, null, 2, 1, null]
  )
  t.equal(liveDeployment(upgraded, 'proj_a')?.id, 'dep_3')
})
