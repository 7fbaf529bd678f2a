import t, { type Test } from 'tap'
import { existsSync, utimesSync } from 'node:fs'
import { cp, link, mkdir, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { randomIds } from '../../lib/base/ids.js'
import { createFiles, sharedChanges } from '../../lib/deploy/files.js'
import { findStaleFiles, findUnrecordedFiles } from '../../lib/deploy/strays.js'
import { createProjects } from '../../lib/projects/projects.js'
import { updateDeployment } from '../../lib/store/tables/deployments.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { freezeAt } from '../support/freeze.js'

const past = new Date('2020-01-01T00:00:00Z')

/** Names in `deployments/` and `tmp/`, in order. */
async function namesOf({ home }: DeployStage): Promise<string[]> {
  const [deployments, tmp] = await Promise.all([home.deployments, home.tmp].map(path => readdir(path)))
  return [...(deployments ?? []), ...(tmp ?? [])].sort()
}

const ownFiles = (...ids: string[]): string[] => ids.flatMap(id => ['log', 'manifest', 'zip'].map(ending => `${id}.${ending}`)).sort()

t.test('a start removes what an earlier server left, says so, and leaves the rest', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  const row = await before.deploy(project, { 'a.txt': '1' })
  const files = createFiles(before.home)
  const inTmp = (name: string): string => join(before.home.tmp, name)
  const [neverRecorded, recordLost] = [randomIds.id('dep_'), randomIds.id('dep_')]
  const upload = files.upload(randomIds.token())
  await writeFile(upload, 'zip')
  await link(upload, files.archive(neverRecorded))
  await writeFile(files.output(neverRecorded), '')
  await writeFile(files.archive(recordLost), 'zip')
  const gone = [
    files.changes(recordLost), `${files.manifest(row.id)}.tmp`, inTmp('inflated-4711-0'), sharedChanges(files.changes(row.id))
  ]
  const ofOthers = sharedChanges(files.changes(recordLost))
  t.teardown(() => rm(ofOthers, { force: true }))
  for (const path of [...gone, inTmp('notes.txt'), ofOthers]) await writeFile(path, 'mine')
  await mkdir(inTmp(`${randomIds.token()}.backup`))
  for (const path of [...gone, ofOthers, upload, files.archive(recordLost), inTmp('notes.txt')]) await utimes(path, past, past)

  const stage = await before.restart()
  t.strictSame(await namesOf(stage), [...ownFiles(row.id), `${recordLost}.zip`, 'notes.txt'].sort())
  for (const path of gone) t.notOk(existsSync(path), path)
  t.ok(existsSync(ofOthers), 'a list of another data directory stays')
  t.match(stage.faults, [[/^Removed 7 leftovers of an earlier server: .*dep_/]])
  t.match((await stage.deployer.unrecordedFiles()).map(({ path }) => basename(path)), [`${recordLost}.zip`])

  await stage.store.write(tx => updateDeployment(tx, row.id, { hasArtifact: false }))
  await utimes(files.archive(row.id), past, past)
  const again = await stage.restart()
  t.notOk(existsSync(files.archive(row.id)), 'the server died between pruning the record and the file')
  t.ok(existsSync(files.manifest(row.id)))
  t.strictSame((await again.restart()).faults, [], 'a clean start has nothing to say')
})

/** A copy of a data directory as it is now. */
async function copied(t: Test, { directory }: DeployStage): Promise<string> {
  const copy = join(tmpdir(), `svc-copied-${randomIds.token()}`)
  t.teardown(() => rm(copy, { recursive: true, force: true }))
  await cp(directory, copy, { recursive: true, preserveTimestamps: true, filter: path => !path.includes('/targets') })
  return copy
}

/** Kills `work` before each of its calls that changes a file, one after the other, and starts another server each time. */
async function killEverywhere(t: Test, { before, work, check }: {
  before: DeployStage
  work(stage: DeployStage): Promise<unknown>
  check(started: DeployStage, point: number, names: string[]): Promise<void>
}): Promise<void> {
  for (let point = 0; ; point++) {
    const directory = await copied(t, before)
    // What it waits for never comes, so nothing ends it.
    const victim = await deployStage({ teardown: () => {} } as unknown as Test, directory)
    if (!(await freezeAt(point, () => work(victim)))) {
      t.ok(point > 3, `killed at ${point} points`)
      return
    }
    const started = await deployStage(t, directory)
    await check(started, point, await namesOf(started))
  }
}

t.test('a rollback that was killed while it was admitted leaves nothing, or its record', async t => {
  const before = await deployStage(t)
  const { id: sourceId } = await before.deploy(await before.addProject(), { 'a.txt': '1' })
  await killEverywhere(t, {
    before,
    work: stage => stage.deployer.rollback(sourceId, { actor: admin }),
    async check(stage, point, names) {
      const ids = stage.store.all<{ id: string }>('SELECT id FROM deployments').map(({ id }) => id)
      const expected = ids.flatMap(id => id === sourceId ? ownFiles(id) : [`${id}.log`, `${id}.zip`])
      t.strictSame(names, expected.sort(), `point ${point}`)
    }
  })
})

t.test('a project whose deletion was killed keeps its files with its records, or leaves nothing', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  for (const text of ['1', '2']) await before.deploy(project, { 'a.txt': text })
  const seen = new Set<number>()
  await killEverywhere(t, {
    before,
    work: stage => projectsOf(stage).remove(project.id, admin),
    async check(stage, point, names) {
      const ids = stage.store.all<{ id: string }>('SELECT id FROM deployments').map(({ id }) => id)
      seen.add(ids.length)
      t.strictSame(names, ownFiles(...ids), `point ${point}`)
    }
  })
  t.strictSame([...seen].sort(), [0, 2], 'killed before and after the records were removed')
})

function projectsOf({ store, clock, ids, home, deployer }: DeployStage) {
  return createProjects({ store, clock, ids, home: home.directory, audit: { within: () => {} }, deployments: deployer })
}

t.test('after a loss of the database, a list of a killed server removes nothing', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'a.txt': '1' })
  const note = await stage.deployer.note([row.id])
  t.strictSame(await namesOf(await deployStage(t, await copied(t, stage))), ownFiles(row.id), 'with its record, it stays')
  await note.settle()

  await stage.deployer.note([row.id])
  await stage.store.close()
  for (const name of ['svc.db', 'svc.db.redo']) await rm(join(stage.home.directory, name))
  t.strictSame(await namesOf(await deployStage(t, await copied(t, stage))), ownFiles(row.id), 'nor does a new database take what it does not know')
})

t.test('a file that cannot be removed fails no deletion; it is logged, and the next start tries again', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'a.txt': '1' })
  const files = createFiles(stage.home)
  await rm(files.manifest(row.id))
  await mkdir(join(files.manifest(row.id), 'not-a-file'), { recursive: true })
  await projectsOf(stage).remove(project.id, admin)
  t.match(stage.faults, [['Files could not be removed: the next start tries again', { code: 'EISDIR' }]])
  t.notOk(existsSync(files.archive(row.id)), 'the others are gone')
  await rm(files.manifest(row.id), { recursive: true })
  await writeFile(files.manifest(row.id), '')
  t.strictSame(await namesOf(await stage.restart()), [])
})

t.test('what a clean-up finds: files that nobody has touched for an hour, and nobody works on', async t => {
  const upload = (letter: string): string => `${letter.repeat(43)}.zip`
  const idOf = (letter: string): string => `dep_${letter.repeat(16)}`
  const old = [upload('a'), `${idOf('b')}.changes`, `${idOf('c')}.changes`, 'somebody-elses.txt']
  const tmp = t.testdir(Object.fromEntries([...old, upload('d')].map(name => [name, ''])))
  const nowMs = Date.now()
  const seconds = nowMs / 1000 - 2 * 60 * 60
  for (const name of old) utimesSync(join(tmp, name), seconds, seconds)
  const isLive = (deployId: string): boolean => deployId === idOf('c')
  const namesIn = (found: Array<{ path: string }>): string[] => found.map(({ path }) => basename(path)).sort()
  t.same(namesIn(await findStaleFiles({ tmp }, { nowMs, isLive })), [upload('a'), old[1]])
  t.same(await findStaleFiles({ tmp: join(tmp, 'missing') }, { nowMs, isLive }), [])

  const stage = await deployStage(t)
  const kept = await stage.deploy(await stage.addProject(), { a: '1' })
  const files = createFiles(stage.home)
  const strays = [files.output(idOf('a')), files.archive(idOf('b')), files.archive(idOf('c'))]
  for (const path of [...strays, files.archive(idOf('d'))]) await writeFile(path, '')
  for (const path of [...strays, files.archive(kept.id)]) utimesSync(path, seconds, seconds)
  const found = (): Promise<string[]> => findUnrecordedFiles(stage.home, stage.store, { nowMs, isLive }).then(namesIn)
  t.same(await found(), [`${idOf('a')}.log`, `${idOf('b')}.zip`])
  await stage.store.write(tx => updateDeployment(tx, kept.id, { hasArtifact: false }))
  t.ok((await found()).includes(`${kept.id}.zip`), 'its record says that it has gone')
})
