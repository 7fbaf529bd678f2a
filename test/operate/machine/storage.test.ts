import t from 'tap'
import type { Test } from 'tap'
import { existsSync, linkSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { systemActor } from '../../../lib/model/audit.js'
import type { Project } from '../../../lib/model/project.js'
import { insertDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertProject, updateProject } from '../../../lib/core/store/tables/projects.js'
import { listAudit } from '../../../lib/core/store/tables/audit.js'
import {
  Quota,
  createStorage,
  type KeptFiles,
  measureFiles,
  measureKept
} from '../../../lib/operate/machine/storage.js'
import { createTargets } from '../../../lib/projects/targets.js'
import { occasion } from '../../support/occasion.js'
import { openStage } from '../../support/store.js'

t.test('storage', async t => {
  const { directory, store, audit } = await openStage(t)
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const target = join(directory, 'target')
  for (const path of [home.deployments, home.tmp, target]) mkdirSync(path)
  const { project, deployment } = occasion({ project: { deployPath: target } })
  const gone: Project = { ...project, id: 'proj_2', token: 'another', deployPath: join(directory, 'missing') }
  await store.write(tx => {
    insertProject(tx, project)
    insertProject(tx, gone)
    for (const id of ['dep_1', 'dep_2', 'dep_3']) insertDeployment(tx, { ...deployment, id })
  })
  const path = (name: string): string => join(home.deployments, name)
  writeFileSync(path('dep_1.zip'), 'x'.repeat(1000))
  linkSync(path('dep_1.zip'), path('dep_2.zip'))
  writeFileSync(path('dep_3.zip'), 'x'.repeat(50))
  writeFileSync(path('dep_unknown.zip'), 'x'.repeat(7))
  writeFileSync(path('dep_1.log'), 'x'.repeat(30))
  writeFileSync(path('dep_1.manifest'), 'x'.repeat(4))
  const stale = join(home.tmp, 'left-behind.zip')
  writeFileSync(stale, 'x'.repeat(11))
  writeFileSync(join(target, 'index.html'), 'x'.repeat(600))

  let prunable = ['dep_2']
  const pruned: unknown[] = []
  const counted: KeptFiles[] = []
  let recounts = 0
  const storage = createStorage({
    store,
    home,
    audit,
    retention: {
      prunable: (projectId, keep) => (projectId === project.id && keep === undefined ? prunable : []),
      prune: async (projectId, keep) => (pruned.push([projectId, keep]), prunable),
      staleFiles: async () => [stale].filter(existsSync).map(path => ({ path, stats: statSync(path) })),
      unrecordedFiles: async () =>
        [path('dep_unknown.zip')].filter(existsSync).map(path => ({ path, stats: statSync(path) }))
    },
    measureTargets: createTargets().measure,
    quota: { counted: kept => void counted.push(kept), recountLater: () => void recounts++ },
    disk: async () => ({ freeBytes: 1, totalBytes: 2, percentUsed: 50 })
  })

  t.test('counts a file with two names once', async t => {
    const usage = await storage.usage()
    const database = statSync(join(directory, 'svc.db')).size + statSync(join(directory, 'svc.db.redo')).size
    t.strictSame(usage, {
      home: { path: directory, bytes: 1057 + 34 + 11 + database, freeBytes: 1, totalBytes: 2, percentUsed: 50 },
      totals: { archives: 1057, logs: 34, tmp: 11, database },
      projects: usage.projects
    })
    t.match(counted, [{ archives: 1057, logs: 34, database }], 'the quota is told')
    t.same(
      usage.projects.find(({ projectId }) => projectId === project.id),
      {
        projectId: project.id,
        archiveCount: 3,
        archiveBytes: 1050,
        wholeArchiveBytes: 1050,
        logBytes: 34,
        deployPathBytes: 600
      }
    )
    t.same(
      usage.projects.find(({ projectId }) => projectId === gone.id),
      {
        projectId: gone.id,
        archiveCount: 0,
        archiveBytes: 0,
        wholeArchiveBytes: 0,
        logBytes: 0,
        deployPathBytes: null
      }
    )
  })

  t.test('a dry run reports what would be removed and freed', async t => {
    t.strictSame(await storage.clean({ dryRun: true, actor: systemActor }), {
      dryRun: true,
      archives: [{ deployId: 'dep_2', projectId: project.id, bytes: 1000 }],
      temporaryFiles: [{ name: 'left-behind.zip', bytes: 11 }],
      unrecordedFiles: [],
      unrecordedLeft: [{ name: 'dep_unknown.zip', bytes: 7 }],
      freedBytes: 11
    })
    t.match(await storage.clean({ dryRun: true, unrecorded: true, actor: systemActor }), {
      unrecordedFiles: [{ name: 'dep_unknown.zip', bytes: 7 }],
      unrecordedLeft: [],
      freedBytes: 18
    })
    prunable = ['dep_1', 'dep_2', 'dep_3']
    t.equal((await storage.clean({ dryRun: true, actor: systemActor })).freedBytes, 1061, 'both names go')
    t.same(pruned, [])
    t.ok(existsSync(stale))
    t.same(listAudit(store, { limit: 10 }), [])
  })

  t.test('removes files and records it in the audit log', async t => {
    t.match(await storage.clean({ dryRun: false, projectId: project.id, actor: systemActor }), { temporaryFiles: [] })
    t.ok(existsSync(stale), 'one project: its archives only')
    await storage.clean({ dryRun: false, actor: systemActor })
    t.notOk(existsSync(stale))
    t.ok(existsSync(path('dep_unknown.zip')), 'a file without a record may be all that a lost database has left')
    t.equal(recounts, 2, 'the quota counts again after each')
    t.same(pruned, [
      [project.id, undefined],
      [project.id, undefined]
    ])
    t.match(listAudit(store, { limit: 10 }), [
      {
        action: 'storage.clean',
        projectId: null,
        detail: 'archives: 3, temporary files: 1, files without a record: 0, freed: 1.0 KB'
      },
      { action: 'storage.clean', projectId: project.id }
    ])
    await storage.clean({ dryRun: false, unrecorded: true, actor: systemActor })
    t.notOk(existsSync(path('dep_unknown.zip')), 'it goes when somebody says so')
    await t.rejects(storage.clean({ dryRun: true, projectId: 'proj_x', actor: systemActor }), { code: 'not_found' })
  })
})

t.test('counts a file with several names once, in total and in each project', async t => {
  const { directory, store } = await openStage(t)
  const home = { directory, deployments: join(directory, 'deployments') }
  mkdirSync(home.deployments)
  const { project, deployment } = occasion()
  await store.write(tx => {
    insertProject(tx, project)
    for (const id of ['dep_1', 'dep_2']) insertDeployment(tx, { ...deployment, id })
  })
  const path = (name: string): string => join(home.deployments, name)
  writeFileSync(path('dep_1.zip'), 'x'.repeat(1000))
  linkSync(path('dep_1.zip'), path('dep_2.zip'))
  writeFileSync(path('dep_unknown.zip'), 'x'.repeat(7))
  writeFileSync(path('dep_2.log'), 'x'.repeat(30))
  writeFileSync(path('dep_1.before.zip'), 'x'.repeat(50))
  const kept = await measureKept(store, home)
  t.match(kept, { archives: 1057, logs: 30 })
  t.equal(kept.database, statSync(join(directory, 'svc.db')).size + statSync(join(directory, 'svc.db.redo')).size)
  t.strictSame(
    [...kept.projects],
    [[project.id, { archiveCount: 2, archiveBytes: 1050, wholeArchiveBytes: 1050, logBytes: 30 }]]
  )
})

t.test('counts a missing directory as empty', async t => {
  const { directory, store } = await openStage(t)
  t.match(await measureKept(store, { directory, deployments: join(directory, 'none') }), { archives: 0, logs: 0 })
  t.equal(await measureFiles(join(directory, 'none'), () => true), 0)
})

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
  const quota = new Quota({ store, home, settings: { number: key => values[key] }, diskOf: async () => disk })
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
