import t, { type Test } from 'tap'
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, chmodSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../lib/base/clock.js'
import { randomIds, sha256 } from '../../lib/base/digests.js'
import { createFiles } from '../../lib/deploy/files.js'
import { createIntake } from '../../lib/deploy/intake.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { until } from '../support/until.js'
import { Projects } from '../../lib/projects/projects.js'
import { freezeAt } from '../support/freeze.js'
import { createRandom } from '../support/random.js'
import { repetitions } from '../support/thorough.js'
import { deploySays } from '../support/sentences/deploy.js'
import { gunzipSync } from 'node:zlib'
import { readTree } from '../../lib/core/archive/tree-wire.js'
import { updateDeployment } from '../../lib/core/store/tables/deployments.js'
import { stageChanges } from '../support/changes-stage.js'

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

/** Younger changes prove nothing (core/install/untouched.ts). */
const coarseMs = 50

t.test('changes are deployed as a whole release, which can be rolled back to', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  t.equal(stage.deployer.baseOf(shop.id, null), null)
  const first = await stage.deploy(shop, { a: 'one', b: 'two', c: 'three' })
  const second = await send(shop, { a: 'one', b: 'changed', c: 'three' })
  t.match(second, { status: 'success', reusedFrom: first.id, fileCount: 3, uploadedBytes: Number })
  t.ok((second.uploadedBytes ?? 0) < (second.archiveBytes ?? 0))
  t.match(await stage.output(second.id), `1 of 3 files came, the others are those of ${first.id}`)
  t.equal(read('b'), 'changed')
  const { finished } = await stage.deployer.rollback(first.id, { actor: admin })
  t.match(await finished, { status: 'success' })
  t.equal(read('b'), 'two')
  const again = await stage.deployer.rollback(second.id, { actor: admin })
  t.match(await again.finished, { status: 'success', treeSha256: second.treeSha256 })
  t.equal(read('b'), 'changed', 'its archive is whole, without the first one')
})

t.test('the base is the release that the client knows, or else the newest one that is whole', async t => {
  const { stage, shop } = await stageChanges(t)
  const first = await stage.deploy(shop, { a: 'one' })
  const second = await stage.deploy(shop, { a: 'two' })
  const { baseOf } = stage.deployer
  t.match(baseOf(shop.id, first.treeSha256), { deployId: first.id })
  t.match(baseOf(shop.id, 'f'.repeat(64)), { deployId: second.id, treeSha256: second.treeSha256 })
  const undone = await (await stage.deployer.undo(shop.id, { actor: admin })).finished
  t.match(undone, { status: 'success', exact: true })
  t.match(baseOf(shop.id, null), { deployId: second.id }, 'a way back keeps only what it changed')
  await stage.deployer.prune(shop.id, 0)
  const kept = baseOf(shop.id, null)
  t.ok(kept === null || existsSync(join(stage.home.deployments, `${kept.deployId}.zip`)))
})

t.test('a base of another project is none, nor is one that was removed', async t => {
  const { stage, shop, send } = await stageChanges(t)
  const blog = await stage.addProject({ name: 'blog', deployPath: join(stage.directory, 'blog') })
  const { id, treeSha256 } = await stage.deploy(blog, { secret: 'of the blog' })
  await stage.deploy(shop, { a: 'one' })
  const base = { deployId: id, treeSha256: treeSha256 as string }
  await t.rejects(stage.deployer.baseTree(shop.id, id), { code: 'base_gone' })
  await t.rejects(stage.deployer.baseSums(shop.id, id, [0]), { code: 'base_gone' })
  await t.rejects(send(shop, { a: 'one' }, base), { code: 'base_gone' })
  t.same(
    (await stage.deployer.staleFiles()).map(({ path }) => path),
    [],
    'and nothing is left of what was sent'
  )
  await stage.deployer.prune(blog.id, 0)
})

t.test('the tree of a base has short digests, enough to find what has changed', async t => {
  const { stage, shop } = await stageChanges(t)
  const { id, treeSha256 } = await stage.deploy(shop, { a: 'one', 'dir/b': 'two' })
  const body = await stage.deployer.baseTree(shop.id, id)
  t.match(gunzipSync(body).toString(), /^svc-tree 1 16\n100644 3 [0-9a-f]{16} /)
  t.equal(readTree(body).treeSha256, treeSha256)
})

t.test('digests of a false manifest are not used', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  const first = await stage.deploy(shop, { a: 'one', b: 'two' })
  const manifest = join(stage.home.deployments, `${first.id}.manifest`)
  const other = sha256(Buffer.from('six')).toString('hex')
  const text = readFileSync(manifest, 'utf8')
  writeFileSync(manifest, text.replace(sha256(Buffer.from('two')).toString('hex'), other))
  t.match(await send(shop, { a: 'new', b: 'six' }), { status: 'success', errorMessage: null })
  t.strictSame([read('a'), read('b')], ['new', 'six'])
})

/** Sets the time of writing back after a change, which the time of the last change of the inode still tells. */
function editSecretly(path: string, text: string): void {
  const { atime, mtime } = statSync(path)
  writeFileSync(path, text)
  utimesSync(path, atime, mtime)
}

t.test('files that were not touched are not written again, also not read', async t => {
  const { stage, shop, send } = await stageChanges(t)
  await stage.deploy(shop, { a: 'one', b: 'two', c: 'three' })
  await sleep(coarseMs)
  await send(shop, { a: 'one', b: 'two', c: 'first' })
  const place = (name: string) => join(shop.deployPath, name)
  const before = ['a', 'b'].map(name => statSync(place(name)))
  // Nobody could read them now; root reads everything.
  for (const name of ['a', 'b']) chmodSync(place(name), 0o644)
  t.match(await send(shop, { a: 'one', b: 'two', c: 'other' }), { status: 'success', fileCount: 3 })
  t.match(await send(shop, { a: 'one', b: 'two', c: 'again' }), { status: 'success', fileCount: 3 })
  const owned = await stage.deployer.ownedTree(shop.id)
  if (owned.baseline !== 'owned') throw new Error('no tree')
  for await (const { path, ctimeMs } of owned.entries())
    if (path !== 'c') t.equal(ctimeMs, statSync(place(path)).ctimeMs, path)
  t.strictSame(
    ['a', 'b'].map(name => statSync(place(name)).ino),
    before.map(({ ino }) => ino)
  )
})

t.test('a file that was edited is put right, whatever its times say', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  await stage.deploy(shop, { a: 'one', b: 'two', c: 'three' })
  await sleep(coarseMs)
  await send(shop, { a: 'one', b: 'two', c: 'first' })
  editSecretly(join(shop.deployPath, 'a'), 'ONE')
  rmSync(join(shop.deployPath, 'b'))
  const row = await send(shop, { a: 'one', b: 'two', c: 'other' })
  t.match(row, { status: 'success' })
  t.strictSame([read('a'), read('b'), read('c')], ['one', 'two', 'other'])
})

t.test('other contents of the same size and time are found by the digest of the tree', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  await stage.deploy(shop, { a: 'one', b: 'two' })
  await sleep(coarseMs)
  // All files that are sent have one time here: nothing but the digest tells that "b" is another one.
  await send(shop, { a: 'one', b: 'TWO', c: 'x' })
  await sleep(coarseMs)
  await send(shop, { a: 'one', b: 'TWO', c: 'y' })
  t.match(await send(shop, { a: 'one', b: 'six', c: 'y' }), { status: 'success' })
  t.strictSame([read('a'), read('b'), read('c')], ['one', 'six', 'y'])
})

t.test('a rollback reads nothing of what is in place, unless the tree of its release is another one', async t => {
  const { stage, shop, send, read } = await stageChanges(t)
  const first = await stage.deploy(shop, { a: 'one', b: 'two' })
  await sleep(coarseMs)
  await send(shop, { a: 'one', b: 'other' })
  await sleep(coarseMs)
  const archive = join(stage.home.deployments, `${first.id}.zip`)
  const back = async () => {
    const row = await (await stage.deployer.rollback(first.id, { actor: admin })).finished
    await stage.deployer.ownedTree(shop.id)
    await sleep(coarseMs)
    return row
  }
  const whole = readFileSync(archive)
  const damaged = Buffer.from(whole)
  // The contents of "a" follow a header of 30 bytes and its name.
  damaged.writeUInt8((damaged[31] as number) ^ 1, 31)
  writeFileSync(archive, damaged)
  t.match(await back(), { status: 'success', treeSha256: first.treeSha256 }, '"a" proves to be in place')
  t.strictSame([read('a'), read('b')], ['one', 'two'])

  await stage.store.write(tx => updateDeployment(tx, first.id, { treeSha256: 'f'.repeat(64) }))
  t.match(await back(), { status: 'failed', errorMessage: /"a"/ }, 'everything is read')
  writeFileSync(archive, whole)
  t.match(await back(), { status: 'success', treeSha256: first.treeSha256 })
  await stage.store.write(tx => updateDeployment(tx, first.id, { treeSha256: first.treeSha256 }))
  editSecretly(join(shop.deployPath, 'a'), 'ONE')
  t.match(await back(), { status: 'success' })
  t.equal(read('a'), 'one', 'what was touched is put right')
})
