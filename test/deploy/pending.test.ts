import t, { type Test } from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { randomIds } from '../../lib/base/ids.js'
import { createFiles } from '../../lib/deploy/files.js'
import { createProjects } from '../../lib/projects/projects.js'
import { admin, deployStage, type DeployStage } from '../support/deploy-stage.js'
import { freezeAt } from '../support/freeze.js'
import { createRandom } from '../support/random.js'

/** Names in `deployments/` and `tmp/`, in order. */
async function namesOf({ home }: DeployStage): Promise<string[]> {
  const [deployments, tmp] = await Promise.all([home.deployments, home.tmp].map(path => readdir(path)))
  return [...(deployments ?? []), ...(tmp ?? [])].sort()
}

const ownFiles = (...ids: string[]): string[] => ids.flatMap(id => ['log', 'manifest', 'zip'].map(ending => `${id}.${ending}`)).sort()

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

t.test('a list is for its owner only, and one that was torn names no other deployment', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'a.txt': '1' })
  const gone = randomIds.id('dep_')
  const files = createFiles(stage.home)
  await writeFile(files.archive(gone), '')
  await stage.deployer.note([gone, row.id])
  const [name = ''] = await readdir(stage.home.tmp)
  const path = join(stage.home.tmp, name)
  t.equal((await stat(path)).mode & 0o777, 0o600)
  t.match(await readFile(path, 'utf8'), new RegExp(`^\\d+\n${gone}\n${row.id}\n$`))
  for (const bytes of [1, 0]) {
    const copy = await copied(t, stage)
    await truncate(join(copy, 'home/tmp', name), bytes)
    t.strictSame(await namesOf(await deployStage(t, copy)), [...ownFiles(row.id), `${gone}.zip`].sort())
  }
})

t.test('a process that is killed at any time while it admits and deletes: the next start leaves what records name', async t => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-killed-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const program = fileURLToPath(new URL('../support/admission-child.js', import.meta.url))
  const random = createRandom(20261122)
  for (let round = 0; round < 4; round++) {
    const child = spawn(process.execPath, [program, directory], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    await sleep(random.below(400))
    child.kill('SIGKILL')
    await once(child, 'exit')
    const stage = await deployStage({ teardown: () => {} } as unknown as Test, directory)
    const rows = stage.store.all<{ id: string }>('SELECT id FROM deployments').map(({ id }) => id)
    const strays = (await namesOf(stage)).filter(name => !rows.includes(name.replace(/\..*$/, '')))
    t.strictSame(strays, [], `round ${round}: ${rows.length} records`)
    for (const id of rows) t.ok(existsSync(createFiles(stage.home).archive(id)), `${id} has its archive`)
    await stage.deployer.stop({ wait: false })
    await stage.store.close()
  }
})
