import t from 'tap'
import type { Test } from 'tap'
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../lib/base/clock.js'
import { randomIds } from '../../lib/base/digests.js'
import { createFiles } from '../../lib/deploy/files.js'
import { createIntake } from '../../lib/deploy/intake.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { until } from '../support/until.js'
import { Projects } from '../../lib/projects/projects.js'
import { freezeAt } from '../support/freeze.js'
import { createRandom } from '../support/random.js'
import { repetitions } from '../support/thorough.js'
import { deploySays } from '../support/sentences/deploy.js'

const limitBytes = 1024 * 1024

async function intakeStage(t: Test) {
  const directory = await mkdtemp(join(tmpdir(), 'svc-intake-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const home = { directory, deployments: join(directory, 'deployments'), tmp: join(directory, 'tmp') }
  const files = createFiles(home)
  return { home, files, intake: createIntake({ home, files, ids: randomIds, clock: systemClock }) }
}

t.test('stores an upload with its length and SHA-256, readable only by the owner', async t => {
  const { intake, home } = await intakeStage(t)
  const bytes = Buffer.alloc(700_000, 'svc')
  const chunks = Array.from({ length: 70 }, (_, index) => bytes.subarray(index * 10_000, (index + 1) * 10_000))
  const received = await intake.receive(Readable.from(chunks), { limitBytes, signal: never })
  t.match(received, { bytes: 700_000, sha256: createHash('sha256').update(bytes).digest('hex') })
  t.ok(bytes.equals(await readFile(received.path)))
  t.equal((await stat(received.path)).mode & 0o777, 0o600)
  t.ok(received.startedAt <= received.endedAt)
  await received.discard()
  await received.discard()
  t.strictSame(await readdir(home.tmp), [])
})

t.test('a too large, empty or interrupted upload leaves nothing behind', async t => {
  const { intake, home } = await intakeStage(t)
  const cases: Array<{ what: string; bytes: Readable; error: { message?: RegExp | string; code?: string } }> = [
    { what: 'empty', bytes: Readable.from([]), error: { code: 'empty_upload' } },
    {
      what: 'one byte over',
      bytes: Readable.from([Buffer.alloc(limitBytes), Buffer.alloc(1)]),
      error: { code: 'too_large', message: /larger than 1\.0 MB/ }
    },
    {
      what: 'interrupted',
      bytes: Readable.from(
        (async function* () {
          yield Buffer.alloc(1000)
          throw new Error('socket closed')
        })()
      ),
      error: { message: 'socket closed' }
    }
  ]
  for (const { what, bytes, error } of cases) {
    t.comment(what)
    await t.rejects(intake.receive(bytes, { limitBytes, signal: never }), error as Error)
    t.ok(bytes.destroyed, 'nothing reads the rest')
    t.strictSame(await readdir(home.tmp), [])
  }
  const exact = await intake.receive(Readable.from([Buffer.alloc(limitBytes)]), { limitBytes, signal: never })
  t.equal(exact.bytes, limitBytes)
})

t.test('an abort throws its reason and leaves nothing behind', async t => {
  const { intake, home } = await intakeStage(t)
  const stopping = new AbortController()
  const endless = Readable.from(
    (async function* () {
      for (;;) {
        yield Buffer.alloc(10)
        await sleep(1)
      }
    })()
  )
  const reason = new Error('client went away')
  const receiving = intake.receive(endless, { limitBytes, signal: stopping.signal })
  await until(async () => (await readdir(home.tmp).catch(() => [])).length > 0)
  stopping.abort(reason)
  await t.rejects(receiving, reason)
  t.strictSame(await readdir(home.tmp), [])
  await t.rejects(intake.receive(Readable.from(['x']), { limitBytes, signal: AbortSignal.abort(reason) }), reason)
})

t.test('a kept archive stays after its upload is removed', async t => {
  const { intake, home, files } = await intakeStage(t)
  const received = await intake.receive(Readable.from([Buffer.from('zip')]), { limitBytes, signal: never })
  await intake.keep(received.path, 'dep_1')
  await received.discard()
  t.equal(await readFile(files.archive('dep_1'), 'utf8'), 'zip')
  t.strictSame(await readdir(home.deployments), ['dep_1.zip'])
  await t.rejects(intake.keep(received.path, 'dep_2'), { code: 'ENOENT' })
})

/** Returns the names in `deployments/` and `tmp/`, sorted. */
async function namesOf({ home }: DeployStage): Promise<string[]> {
  const [deployments, tmp] = await Promise.all([home.deployments, home.tmp].map(path => readdir(path)))
  return [...(deployments ?? []), ...(tmp ?? [])].sort()
}

const ownFiles = (...ids: string[]): string[] =>
  ids.flatMap(id => ['log', 'manifest', 'zip'].map(ending => `${id}.${ending}`)).sort()

/** Copies a data directory in its current state. */
async function copied(t: Test, { directory }: DeployStage): Promise<string> {
  const copy = join(tmpdir(), `svc-copied-${randomIds.token()}`)
  t.teardown(() => rm(copy, { recursive: true, force: true }))
  // Trees are written in the background, and are made again when they are missing.
  const filter = (path: string): boolean => !/\/(targets|trees)/.test(path)
  await cp(directory, copy, { recursive: true, preserveTimestamps: true, filter })
  return copy
}

/** Kills `work` before each call that changes a file, one run per call, and starts another server each time. */
async function killEverywhere(
  t: Test,
  {
    before,
    work,
    check
  }: {
    before: DeployStage
    work(stage: DeployStage): Promise<unknown>
    check(started: DeployStage, point: number, names: string[]): Promise<void>
  }
): Promise<void> {
  for (let point = 0; ; point++) {
    const directory = await copied(t, before)
    // It waits forever, so only the kill ends it.
    const victim = await deployStage({ teardown: () => {} } as unknown as Test, directory)
    // The checkpoint that a start begins would go on after the kill.
    await victim.store.checkpoint()
    if (!(await freezeAt(point, () => work(victim)))) {
      t.ok(point > 3, `killed at ${point} points`)
      await victim.deployer.stop({ wait: true })
      await victim.store.close()
      return
    }
    const started = await deployStage(t, directory)
    await check(started, point, await namesOf(started))
  }
}

t.test('a rollback killed during admission leaves nothing, or a complete record', async t => {
  const before = await deployStage(t)
  const { id: sourceId } = await before.deploy(await before.addProject(), { 'a.txt': '1' })
  await killEverywhere(t, {
    before,
    work: stage => stage.deployer.rollback(sourceId, { actor: admin }),
    async check(stage, point, names) {
      const ids = stage.store.all('SELECT id FROM deployments').map(({ id }) => String(id))
      const expected = ids.flatMap(id => (id === sourceId ? ownFiles(id) : [`${id}.log`, `${id}.zip`]))
      t.strictSame(names, expected.sort(), `point ${point}`)
    }
  })
})

t.test('a project whose deletion was killed keeps files and records, or neither', async t => {
  const before = await deployStage(t)
  const project = await before.addProject()
  for (const text of ['1', '2']) await before.deploy(project, { 'a.txt': text })
  const seen = new Set<number>()
  await killEverywhere(t, {
    before,
    work: stage => projectsOf(stage).remove(project.id, admin),
    async check(stage, point, names) {
      const ids = stage.store.all('SELECT id FROM deployments').map(({ id }) => String(id))
      seen.add(ids.length)
      t.strictSame(names, ownFiles(...ids), `point ${point}`)
    }
  })
  t.strictSame([...seen].sort(), [0, 2], 'killed before and after the records were removed')
})

function projectsOf({ store, clock, ids, home, deployer, headers }: DeployStage) {
  const audit = { within: () => {} }
  return new Projects({ store, clock, ids, home: home.directory, audit, deployments: deployer, headers })
}

t.test('removes nothing by a list if the database was lost', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'a.txt': '1' })
  const note = await stage.deployer.note([row.id])
  t.strictSame(
    await namesOf(await deployStage(t, await copied(t, stage))),
    ownFiles(row.id),
    'a file with a record stays'
  )
  await note.settle()

  await stage.deployer.note([row.id])
  await stage.store.close()
  for (const name of ['svc.db', 'svc.db.redo']) await rm(join(stage.home.directory, name))
  t.strictSame(
    await namesOf(await deployStage(t, await copied(t, stage))),
    ownFiles(row.id),
    'a new database does not remove unknown files either'
  )
})

t.test('logs a file that cannot be removed, and retries at the next start', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const row = await stage.deploy(project, { 'a.txt': '1' })
  const files = createFiles(stage.home)
  await rm(files.manifest(row.id))
  await mkdir(join(files.manifest(row.id), 'not-a-file'), { recursive: true })
  await projectsOf(stage).remove(project.id, admin)
  t.match(stage.faults, [[deploySays.filesNotRemoved, { code: 'EISDIR' }]])
  t.notOk(existsSync(files.archive(row.id)), 'the other files are removed')
  await rm(files.manifest(row.id), { recursive: true })
  await writeFile(files.manifest(row.id), '')
  t.strictSame(await namesOf(await stage.restart()), [])
})

t.test('a list is readable only by its owner, and a torn line is not an id', async t => {
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

t.test('after a kill during admissions and deletions, a start leaves the recorded files', async t => {
  const directory = await mkdtemp(join(tmpdir(), 'svc-killed-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const program = fileURLToPath(new URL('../support/admission-child.js', import.meta.url))
  const random = createRandom(20261122)
  for (let round = 0; round < repetitions(1, 4); round++) {
    const child = spawn(process.execPath, [program, directory], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    await sleep(random.below(400))
    child.kill('SIGKILL')
    await once(child, 'exit')
    const stage = await deployStage({ teardown: () => {} } as unknown as Test, directory)
    const rows = stage.store.all('SELECT id FROM deployments').map(({ id }) => String(id))
    const strays = (await namesOf(stage)).filter(name => !rows.includes(name.replace(/\..*$/, '')))
    t.strictSame(strays, [], `round ${round}: ${rows.length} records`)
    for (const id of rows) t.ok(existsSync(createFiles(stage.home).archive(id)), `${id} has its archive`)
    await stage.deployer.stop({ wait: false })
    await stage.store.close()
  }
})
