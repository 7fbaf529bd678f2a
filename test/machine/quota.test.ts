import { linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { insertDeployment } from '../../lib/store/tables/deployments.js'
import { insertProject, updateProject } from '../../lib/store/tables/projects.js'
import { measureKept } from '../../lib/machine/storage.js'
import { createQuota } from '../../lib/machine/quota.js'
import { occasion } from '../support/occasion.js'
import { openStage } from '../support/store.js'

const mb = 1024 * 1024
/** What uploads leave free of a disk of 100 MB, whose database is small, is less. */
const spareBytes = 4 * mb

async function quotaStage(t: Test) {
  const { directory, store } = await openStage(t)
  const home = { directory, deployments: join(directory, 'deployments') }
  mkdirSync(home.deployments)
  const { project, deployment } = occasion()
  const other = { ...project, id: 'proj_2', name: 'Other', token: 'another', deployPath: join(directory, 'other') }
  await store.write(tx => {
    insertProject(tx, project)
    insertProject(tx, other)
    for (const id of ['dep_1', 'dep_2']) insertDeployment(tx, { ...deployment, id })
    insertDeployment(tx, { ...deployment, id: 'dep_3', projectId: other.id })
  })
  const values = { max_home_size: 0 }
  const disk = { freeBytes: null as number | null, totalBytes: null as number | null, percentUsed: null }
  const quota = createQuota({ store, home, settings: { number: key => values[key] }, diskOf: async () => disk })
  return {
    store,
    home,
    project,
    other,
    values,
    disk,
    quota,
    limit: async (maxDiskMb: number | null) =>
      void (await store.write(tx => updateProject(tx, project.id, { maxDiskMb }))),
    file: (name: string, bytes: number) => writeFileSync(join(home.deployments, name), Buffer.alloc(bytes))
  }
}

const homeFull = {
  kind: 'too_large',
  code: 'home_full',
  message: /max_home_size \(100 MB\)\. Clean the storage, lower keep_archives, or raise max_home_size$/
}
const projectFull = { kind: 'too_large', code: 'project_quota', message: /"shop".* its limit \(10 MB\).*maxDiskMb/ }

t.test('refuses nothing without a limit', async t => {
  const { quota, project } = await quotaStage(t)
  const claim = await quota.claim({ bytes: 1e15, projectId: project.id })
  claim.grow(1e16)
  claim.of('proj_2')
  claim.release()
})

t.test('stored, announced and requested bytes together stay below max_home_size', async t => {
  const { quota, values, file, home, project, other } = await quotaStage(t)
  values.max_home_size = 100
  file('dep_1.zip', 40 * mb)
  linkSync(join(home.deployments, 'dep_1.zip'), join(home.deployments, 'dep_2.zip'))
  file('dep_3.log', 10 * mb)
  await t.rejects(quota.claim({ bytes: 50 * mb, projectId: null }), homeFull)
  const first = await quota.claim({ bytes: 30 * mb, projectId: project.id })
  await t.rejects(quota.claim({ bytes: 19 * mb, projectId: other.id }), homeFull, 'one that is coming counts')
  const both = await Promise.allSettled([
    quota.claim({ bytes: 15 * mb, projectId: null }),
    quota.claim({ bytes: 15 * mb, projectId: null })
  ])
  t.same(both.map(({ status }) => status).sort(), ['fulfilled', 'rejected'], 'of two at once only one has room')
  first.release()
  const third = await quota.claim({ bytes: 30 * mb, projectId: null })
  third.release()
})

t.test('tracks archives and outputs without reading the disk, and a recount corrects it', async t => {
  const { quota, values, file, project } = await quotaStage(t)
  values.max_home_size = 100
  ;(await quota.claim({ bytes: 90 * mb, projectId: null })).release()
  quota.changed(project.id, 60 * mb)
  await t.rejects(quota.claim({ bytes: 50 * mb, projectId: null }), homeFull)
  quota.changed(project.id, -30 * mb)
  ;(await quota.claim({ bytes: 50 * mb, projectId: null })).release()
  file('dep_1.zip', 90 * mb)
  ;(await quota.claim({ bytes: 50 * mb, projectId: null })).release()
  quota.recountLater()
  await t.rejects(quota.claim({ bytes: 50 * mb, projectId: null }), homeFull)
})

t.test('applies the limit of a project, wherever its id is in the form', async t => {
  const { quota, limit, file, home, store, project, other } = await quotaStage(t)
  await limit(10)
  file('dep_1.zip', 4 * mb)
  file('dep_1.log', 2 * mb)
  file('dep_3.zip', 50 * mb)
  await t.rejects(quota.claim({ bytes: 5 * mb, projectId: project.id }), projectFull)
  const unnamed = await quota.claim({ bytes: 5 * mb, projectId: null })
  t.throws(() => unnamed.of(project.id), projectFull)
  unnamed.of(other.id)
  unnamed.release()
  const one = await quota.claim({ bytes: 3 * mb, projectId: project.id })
  await t.rejects(quota.claim({ bytes: 2 * mb, projectId: project.id }), projectFull, 'one that is coming counts')
  one.release()
  rmSync(join(home.deployments, 'dep_1.zip'))
  quota.counted(await measureKept(store, home))
  ;(await quota.claim({ bytes: 8 * mb, projectId: project.id })).release()
  await limit(null)
  ;(await quota.claim({ bytes: 800 * mb, projectId: project.id })).release()
})

t.test('refuses an upload of unknown length when it becomes too long', async t => {
  const { quota, values, project, limit } = await quotaStage(t)
  values.max_home_size = 100
  const claim = await quota.claim({ bytes: 0, projectId: null })
  claim.grow(50 * mb)
  await t.rejects(quota.claim({ bytes: 50 * mb, projectId: null }), homeFull, 'what has come counts')
  t.throws(() => claim.grow(99.5 * mb), homeFull)
  claim.release()
  values.max_home_size = 0
  await limit(10)
  const own = await quota.claim({ bytes: 0, projectId: project.id })
  own.grow(10 * mb)
  t.throws(() => own.grow(10 * mb + 1), projectFull)
})

t.test('uploads leave a reserve of the file system', async t => {
  const { quota, disk } = await quotaStage(t)
  const full = { kind: 'unavailable', code: 'disk_full' }
  Object.assign(disk, { freeBytes: 20 * mb, totalBytes: 100 * mb })
  await t.rejects(quota.claim({ bytes: 20 * mb, projectId: null }), full, 'a hundredth of a small one')
  const first = await quota.claim({ bytes: 20 * mb - spareBytes, projectId: null })
  await t.rejects(quota.claim({ bytes: 4 * mb, projectId: null }), full, 'the first has not written anything yet')
  first.grow(10 * mb)
  disk.freeBytes = 10 * mb + 10 * mb
  const second = await quota.claim({ bytes: 10 * mb, projectId: null })
  second.release()
  first.release()
  Object.assign(disk, { freeBytes: 67 * mb, totalBytes: 1_000_000 * mb })
  await t.rejects(quota.claim({ bytes: 4 * mb, projectId: null }), full, '64 MB of a large one')
  const unknown = await quota.claim({ bytes: 0, projectId: null })
  unknown.grow(0.5 * mb)
  t.throws(() => unknown.grow(4 * mb), full)
})
