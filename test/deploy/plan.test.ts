import t from 'tap'
import { mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type PlanRequest, preflight, type ComparerNeeds, createComparer } from '../../lib/deploy/plan.js'
import { Refusal } from '../../lib/base/errors.js'
import type { Project } from '../../lib/model/project.js'
import { deployStage, never } from '../support/deploy-stage.js'
import { treeBody } from '../support/planned.js'
import { insertLock } from '../../lib/core/store/tables/projects.js'
import { zipOf } from '../support/zip.js'
import { setImmediate } from 'node:timers/promises'
import type { Compared } from '../../lib/core/install/compare.js'
import type { Outcome } from '../../lib/core/install/unpack/extract-threads.js'
import { systemClock } from '../../lib/base/clock.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { aProject } from '../core/store/stage.js'

t.test('plans', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage

  async function request(project: Project, files: Record<string, string>): Promise<PlanRequest> {
    const site = join(stage.directory, `site-${project.id}`)
    mkdirSync(site, { recursive: true })
    for (const [path, contents] of Object.entries(files)) {
      writeFileSync(join(site, path), contents)
      // Never the time of a deployed file, which is that of the archive in whole seconds.
      utimesSync(join(site, path), 1_600_000_000, 1_600_000_000)
    }
    const tree = await treeBody(site)
    const asks = { prune: undefined, force: false }
    const asked = {
      asks,
      listed: 10,
      scripts: {},
      mayUpload: true,
      clientTimeMs: null,
      noSpace: null,
      maxUploadBytes: 5
    }
    return { projectId: project.id, tree, signal: never, ...asked }
  }

  t.test('returns the live deployment, the queue and the limits', async t => {
    const project = await stage.addProject()
    const first = await deployer.plan(await request(project, { a: 'x' }))
    t.match(first, { live: null, queue: { running: null, waiting: 0 }, limits: { maxUploadBytes: 5 } })
    t.match(first.project, { id: project.id, name: 'Shop' })
    const row = await stage.deploy(project, { a: 'x' }, { message: 'New prices' })
    const slow = await stage.push(project, { a: 'x' }, { postDeploy: 'sleep 30' })
    await stage.push(project, { a: 'x' })
    const { live, queue } = await deployer.plan(await request(project, { a: 'x' }))
    t.match(live, { deployId: row.id, status: 'success', message: 'New prices' })
    t.strictSame(queue, { running: slow.deployId, waiting: 1, ahead: null })
    await deployer.cancel(slow.deployId, { name: 'admin', ip: '192.0.2.1' })
    t.strictSame(
      stage.audits.filter(({ action }) => action.includes('plan')),
      []
    )
  })

  t.test('a torn tree of what svc owns is made again', async t => {
    const project = await stage.addProject()
    await stage.deploy(project, { a: 'x', b: 'y' })
    const asked = await request(project, { a: 'x', b: 'z' })
    const before = await deployer.plan(asked)
    t.match(before.counts, { changed: 1, timeOnly: 1, foreign: 0 })
    const path = join(stage.home.directory, 'trees', `${project.id}.tree`)
    const whole = readFileSync(path, 'utf8')
    writeFileSync(path, whole.slice(0, -20))
    const { counts, baseline } = await deployer.plan(asked)
    t.strictSame({ counts, baseline }, { counts: before.counts, baseline: 'owned' })
    t.equal(readFileSync(path, 'utf8'), whole)
  })

  t.test('a data directory without space fails its check with the code of the upload', async t => {
    const project = await stage.addProject()
    const noSpace = new Refusal('too_large', 'home_full', 'The upload was refused')
    const { checks } = await deployer.plan({ ...(await request(project, { a: 'x' })), noSpace })
    t.match(
      checks.find(({ name }) => name === 'space_home'),
      { ok: false, code: 'home_full' }
    )
  })

  t.test('refuses an unknown project, an invalid tree and an abort', async t => {
    const project = await stage.addProject()
    const good = await request(project, { a: 'x' })
    await t.rejects(deployer.plan({ ...good, projectId: 'proj_x' }), { code: 'not_found' })
    await t.rejects(deployer.plan({ ...good, tree: Buffer.from('x') }), { code: 'invalid_tree' })
    const reason = new Error('gone')
    await t.rejects(deployer.plan({ ...good, signal: AbortSignal.abort(reason) }), reason)
    t.match(await deployer.plan(good), { counts: { added: 1 } }, 'the project is free again')
  })

  t.test('a stopped server makes no plans', async t => {
    const other = await deployStage(t)
    const project = await other.addProject()
    await other.deployer.stop({ wait: true })
    await t.rejects(other.deployer.plan(await request(project, { a: 'x' })), { code: 'shutting_down' })
  })
})

t.test('an archive is refused now for what its deployment would be refused for', async t => {
  const stage = await deployStage(t)
  const { id: projectId, deployPath } = await stage.addProject()
  const archivePath = join(stage.directory, 'a.zip')
  writeFileSync(archivePath, await zipOf({ a: 'text' }))
  const request = { projectId, archivePath, offered: { origin: 'upload' as const } }
  await preflight(stage, request)
  mkdirSync(deployPath, { recursive: true })
  await preflight(stage, request)

  stage.values.allow_client_scripts = false
  await t.rejects(preflight(stage, { ...request, offered: { origin: 'upload', postDeploy: 'x' } }), {
    code: 'client_scripts_off'
  })
  await preflight(stage, { ...request, offered: { origin: 'source deployment', postDeploy: 'x' } })
  stage.values.max_extracted_size = 0
  await t.rejects(preflight(stage, request), { code: /too_large|extracted/ })
  stage.values.max_extracted_size = 64
  writeFileSync(archivePath, 'no zip')
  await t.rejects(preflight(stage, request), { name: 'Refusal' })
  writeFileSync(archivePath, await zipOf({ '../a': 'text' }).catch(() => Buffer.from('no zip')))
  await t.rejects(preflight(stage, request), { name: 'Refusal' })
  await t.rejects(preflight(stage, { ...request, projectId: 'proj_none' }), { code: 'not_found' })

  await stage.store.write(tx => {
    const [createdAt, expiresAt] = [new Date().toISOString(), '9999-01-01T00:00:00.000Z']
    insertLock(tx, { projectId, kind: 'lock', owner: 'admin', reason: 'audit', createdAt, expiresAt })
  })
  await t.rejects(preflight(stage, request), { code: 'locked' })
})

t.test('a target that cannot be made or written is refused', async t => {
  const stage = await deployStage(t)
  const archivePath = join(stage.directory, 'a.zip')
  writeFileSync(archivePath, await zipOf({ a: 'text' }))
  const file = join(stage.directory, 'file')
  writeFileSync(file, 'x')
  for (const deployPath of [file, join(file, 'below')]) {
    const { id: projectId } = await stage.addProject({ id: `proj_${deployPath.length}`, deployPath })
    const request = { projectId, archivePath, offered: { origin: 'upload' as const } }
    await t.rejects(preflight(stage, request), { code: 'not_permitted' }, deployPath)
  }
})

const { signal } = new AbortController()
const trees: ComparerNeeds['trees'] = { read: async () => ({ baseline: 'building' }) }

t.test('compares, one comparison per project at a time', async t => {
  const directory = t.testdir({ site: { a: 'x' }, target: { a: 'y' }, home: {} })
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const home = { directory: join(directory, 'home'), deployments: directory, tmp: directory }
  const comparer = createComparer({ home, clock: systemClock, executors, trees })
  const project = aProject({ deployPath: join(directory, 'target') })
  const asked = { tree: await treeBody(join(directory, 'site')), listed: 10, signal }
  const ended: number[] = []
  const gone = new AbortController()
  const all = Array.from({ length: 5 }, async (_, i) => {
    const one = comparer.compare(project, i === 2 ? { ...asked, signal: gone.signal } : asked)
    return one.finally(() => ended.push(i))
  })
  await t.rejects(comparer.compare(project, asked), { kind: 'conflict', code: 'plan_busy' }, 'five is the limit')
  gone.abort(new Error('gone away'))
  await t.rejects(all[2] as Promise<unknown>, { message: 'gone away' }, 'a caller that left loses its turn')
  const { compared, baseline } = await (all[0] as (typeof all)[0])
  await Promise.all([all[1], all[3], all[4]])
  t.same(ended, [0, 1, 2, 3, 4], 'in the order of arrival')
  t.equal(baseline, 'building')
  t.match(compared, { counts: { changed: 1 }, paths: { changed: ['a'] } })
  t.match(await comparer.compare(project, asked), { compared: { counts: { changed: 1 } } }, 'the project is free again')
})

t.test('passes on how a comparison failed', async t => {
  const refusal = new Refusal('invalid', 'invalid_tree', 'The tree is invalid')
  const outcomes: Outcome[] = [{ kind: 'failed', error: refusal }, { kind: 'died' }, { kind: 'stuck' }]
  const executor = { run: async () => outcomes.shift() as Outcome, isStuck: () => false }
  const executors = { comparing: () => executor } as unknown as ComparerNeeds['executors']
  const home = { directory: '/nowhere', deployments: '/nowhere', tmp: '/nowhere' }
  const comparer = createComparer({ home, clock: systemClock, executors, trees })
  const compare = () => comparer.compare(aProject({}), { tree: Buffer.from(''), listed: 0, signal })
  await t.rejects(compare(), refusal)
  await t.rejects(compare(), { message: 'ended without an answer: died' })
  await t.rejects(compare(), { message: 'ended without an answer: stuck' })
})

t.test('projects whose comparisons are slow share one place', async t => {
  const going: string[] = []
  const ends: Array<() => void> = []
  const executor = {
    async run(job: { compare: { target: string } }): Promise<Outcome> {
      going.push(job.compare.target)
      await new Promise<void>(resolve => ends.push(resolve))
      return { kind: 'compared', compared: { checks: [] as Compared['checks'] } as Compared }
    },
    isStuck: () => false
  }
  const executors = { comparing: () => executor } as unknown as ComparerNeeds['executors']
  const home = { directory: '/nowhere', deployments: '/nowhere', tmp: '/nowhere' }
  const comparer = createComparer({ home, clock: systemClock, executors, trees, slowMs: 0 })
  const compare = (name: string) =>
    comparer.compare(aProject({ id: name, deployPath: name }), { tree: Buffer.from(''), listed: 0, signal })
  const endAll = async (all: Array<Promise<unknown>>): Promise<void> => {
    while (ends.length < all.length) await setImmediate()
    ends.splice(0).forEach(end => end())
    await Promise.all(all)
  }
  await endAll([compare('a'), compare('b')])
  t.strictSame(going.splice(0), ['a', 'b'], 'at first nobody knows')
  const again = [compare('a'), compare('b'), compare('c')]
  while (ends.length < 2) await setImmediate()
  t.strictSame(going.splice(0).sort(), ['a', 'c'], 'one of them waits, and a third goes on')
  ends.splice(0).forEach(end => end())
  while (ends.length < 1) await setImmediate()
  t.strictSame(going, ['b'])
  ends.splice(0).forEach(end => end())
  await Promise.all(again)
})

t.test('a target that cannot be read is a problem, not an empty list', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'one' })
  writeFileSync(`${stage.directory}/file`, 'x')
  await stage.change(project, { deployPath: `${stage.directory}/file` })
  const report = await stage.deployer.drift({ projectId: project.id, isFull: false, signal: never })
  t.match(report, { success: true, partial: true, problem: /is not a directory$/, count: 0, files: [] })
})
