import t from 'tap'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import type { VerifyEvent } from '../../lib/model/plan.js'
import { createVerifier, findRepair, repairState } from '../../lib/deploy/verify.js'
import type { DeployFiles } from '../../lib/deploy/files.js'
import { deploySays } from '../support/sentences/deploy.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { aProject } from '../core/store/stage.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import type { RepairRequest } from '../../lib/deploy/requests.js'
import type { Project } from '../../lib/model/project.js'

async function verify(
  { deployer }: DeployStage,
  projectId: string,
  { sums = false, signal = never } = {}
): Promise<VerifyEvent[]> {
  const events: VerifyEvent[] = []
  for await (const some of deployer.verify({ projectId, sums, signal })) events.push(...some)
  return events
}

t.test('compares every file with what svc put there', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  t.match(await verify(stage, project.id), [
    { event: 'start', files: 0, baseline: 'none' },
    { event: 'end', files: 0, ok: 0 }
  ])
  const first = await stage.deploy(project, { a: 'one', b: 'one', c: 'one', d: 'one' })
  const second = await stage.deploy(project, { b: 'two' })
  const at = (name: string): string => join(project.deployPath, name)
  const clean = await verify(stage, project.id)
  t.strictSame(clean.at(-1), {
    event: 'end',
    files: 4,
    ok: 4,
    changed: 0,
    missing: 0,
    otherType: 0,
    mode: 0,
    isOutdated: false
  })
  t.match(await stage.deployer.treeSummary({ projectId: project.id, drift: false, signal: never }), {
    baseline: 'owned',
    files: 4,
    bytes: 12,
    liveId: second.id,
    treeSha256: /^[0-9a-f]{64}$/,
    verified: { at: /Z$/, differing: 0 },
    drift: null
  })

  writeFileSync(at('a'), 'two')
  chmodSync(at('b'), 0o600)
  rmSync(at('c'))
  writeFileSync(at('not-of-svc'), 'x')
  const events = await verify(stage, project.id)
  t.strictSame(
    events.filter(({ event }) => event === 'finding'),
    [
      { event: 'finding', path: 'a', state: 'changed', since: first.id },
      { event: 'finding', path: 'b', state: 'mode', since: second.id },
      { event: 'finding', path: 'c', state: 'missing', since: first.id }
    ]
  )
  t.match(events[0], { event: 'start', files: 4, baseline: 'owned' })
  t.match(events.at(-2), { event: 'progress', done: 4, files: 4 })
  t.match(events.at(-1), { event: 'end', files: 4, ok: 1, changed: 1, missing: 1, otherType: 0, mode: 1 })
  const summary = await stage.deployer.treeSummary({ projectId: project.id, drift: true, signal: never })
  t.match(summary, { verified: { differing: 3 }, drift: { count: 2 } })
  const next = await stage.deploy(project, { c: 'three' })
  t.match(
    await stage.deployer.treeSummary({ projectId: project.id, drift: false, signal: never }),
    { liveId: next.id, verified: null, drift: null },
    'the next deployment starts another state'
  )
})

t.test('cuts a large tree into slices, and lists sums in the order of the tree', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const names = Array.from({ length: 2500 }, (_, at) => `f${String(at).padStart(5, '0')}`)
  await stage.deploy(project, Object.fromEntries(names.map(name => [name, name])))
  rmSync(join(project.deployPath, 'f01700'))
  const events = await verify(stage, project.id, { sums: true })
  t.strictSame(
    events.flatMap(event => (event.event === 'file' ? [event.path] : [])),
    names
  )
  t.strictSame(
    events.flatMap(event => (event.event === 'progress' ? [event.done] : [])),
    [1000, 2000, 2500]
  )
  t.match(events.at(-1), { event: 'end', files: 2500, ok: 2499, missing: 1 })
})

t.test('one verification per project at a time, and an abort ends it', async t => {
  const stage = await deployStage(t)
  const [project, other] = [await stage.addProject(), await stage.addProject()]
  for (const each of [project, other]) await stage.deploy(each, { a: 'x' })
  const stop = new AbortController()
  const running = stage.deployer.verify({ projectId: project.id, sums: false, signal: stop.signal })
  await running.next()
  await t.rejects(verify(stage, project.id), { code: 'verify_busy', kind: 'conflict' })
  t.match((await verify(stage, other.id)).at(-1), { ok: 1 }, 'another project does not wait')
  await running.return(undefined)
  t.match((await verify(stage, project.id)).at(-1), { ok: 1 }, 'it is free after the caller has stopped')
  const reason = new Error('the client is gone')
  stop.abort(reason)
  await t.rejects(verify(stage, project.id, { signal: stop.signal }), reason)
  t.match((await verify(stage, project.id)).at(-1), { ok: 1 })
  await t.rejects(verify(stage, 'proj_x'), { code: 'not_found' })
})

t.test('says that a deployment changed the target meanwhile', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x' })
  const running = stage.deployer.verify({ projectId: project.id, sums: false, signal: never })
  const { value } = await running.next()
  t.match(value, [{ event: 'start' }, { event: 'progress', done: 1 }])
  await stage.deploy(project, { a: 'y' })
  t.match((await running.next()).value, [{ event: 'end', ok: 1, isOutdated: true }])
  await running.return(undefined)
  const signal = never
  t.equal((await stage.deployer.treeSummary({ projectId: project.id, drift: false, signal })).verified, null)
})

t.test('a target that cannot be used is refused, and a missing one lacks every file', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x' })
  renameSync(project.deployPath, `${project.deployPath}-aside`)
  t.match((await verify(stage, project.id)).at(-1), { event: 'end', ok: 0, missing: 1 })
  writeFileSync(project.deployPath, 'a file')
  await t.rejects(verify(stage, project.id), { code: 'target_unusable' })
})

t.test('a torn list of the files is made again', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x', b: 'x' })
  const path = join(stage.home.directory, 'trees', `${project.id}.tree`)
  const whole = readFileSync(path, 'utf8')
  const tear = (): void => writeFileSync(path, whole.replace(/ b\n/, ' c\n'))
  tear()
  t.match((await verify(stage, project.id)).at(-1), { ok: 2 }, 'before it was read for the first time')
  tear()
  await t.rejects(verify(stage, project.id), { code: 'changed_meanwhile' })
  t.match((await verify(stage, project.id)).at(-1), { ok: 2 })
})

t.test('a small target is verified while others have files of any size', async t => {
  const { store, home } = await deployStage(t)
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const terabyte = 2 ** 40
  const directory = t.testdir({ large1: { a: '' }, large2: { a: '' }, small: { a: 'a' } })
  for (const name of ['large1', 'large2']) truncateSync(join(directory, name, 'a'), terabyte)
  const sizeOf = (project: string): number => (project === 'small' ? 1 : terabyte)
  const verifier = createVerifier({
    store,
    home,
    allowSystemPaths: false,
    executors,
    hasRunning: () => false,
    states: { figures: async () => ({ files: 1, bytes: 0, treeSha256: '' }), verified: () => {} },
    trees: {
      read: async id => ({
        baseline: 'owned',
        head: { sequence: 1, target: '' } as never,
        path: '',
        contents: async () => new Uint8Array(),
        async *entries() {
          yield { path: 'a', mode: 0o100644, size: sizeOf(id), sha256: '', mtimeMs: 0, ino: 1, since: 'dep_1' }
        }
      })
    }
  })
  const leaving = new AbortController()
  const differences = (id: string, signal: AbortSignal) =>
    verifier.differences(aProject({ id, deployPath: join(directory, id) }), {
      paths: null,
      isAlone: true,
      withTimes: false,
      signal
    })
  const large = ['large1', 'large2'].map(id => differences(id, leaving.signal).catch(error => error as Error))
  const { different } = await differences('small', never)
  t.match(different, [{ path: 'a' }])
  leaving.abort(new Error('left'))
  for (const work of large) t.match(await work, { message: /left|aborted/ })
})

async function repair(
  { deployer }: DeployStage,
  project: Project,
  request: Partial<RepairRequest> = {}
): Promise<Awaited<Awaited<ReturnType<DeployStage['deployer']['repair']>>['finished']>> {
  const run = await deployer.repair(project.id, { actor: admin, signal: never, ...request })
  const row = await run.finished
  await deployer.ownedTree(project.id)
  return row
}

async function differing({ deployer }: DeployStage, project: Project): Promise<string[]> {
  const found: string[] = []
  for await (const events of deployer.verify({ projectId: project.id, sums: false, signal: never }))
    for (const event of events) if (event.event === 'finding') found.push(`${event.path} ${event.state}`)
  return found
}

t.test('puts back what differs, from the archives that contain it', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const at = (name: string): string => join(project.deployPath, name)
  const names = ['bytes', 'gone', 'mode', 'type', 'same', 'sub/deep']
  await stage.deploy(project, Object.fromEntries(names.map(name => [name, `${name} of one`])))
  const second = await stage.deploy(project, { gone: 'gone of two' })
  const before = names.map(name => statSync(at(name)))

  writeFileSync(at('bytes'), 'by hand')
  chmodSync(at('mode'), 0o600)
  for (const name of ['gone', 'type']) rmSync(at(name))
  rmSync(at('sub'), { recursive: true })
  symlinkSync('same', at('type'))
  writeFileSync(at('not-of-svc'), 'mine')
  t.equal((await differing(stage, project)).length, 5)
  const row = await repair(stage, project, { message: 'after the incident' })
  t.match(row, {
    status: 'success',
    triggerSource: 'repair',
    exact: true,
    rollbackOf: null,
    message: 'after the incident',
    fileCount: 5
  })
  t.strictSame(await differing(stage, project), [])
  for (const [index, name] of names.entries()) {
    t.equal(readFileSync(at(name), 'utf8'), name === 'gone' ? 'gone of two' : `${name} of one`)
    t.equal(statSync(at(name)).mode, before[index]?.mode, name)
    t.equal(statSync(at(name)).mtimeMs, before[index]?.mtimeMs, name)
  }
  t.equal(readFileSync(at('not-of-svc'), 'utf8'), 'mine')
  t.match(stage.audits.at(-1), { action: 'deployment.repair', target: row.id })
  const output = await stage.output(row.id)
  t.match(output, `Deployment ${row.id} (a repair of 5 files)`)
  t.match(output, '→ puts back 5 files')
  t.match(output, 'replaced "bytes", which was edited on the server')
  t.ok(existsSync(join(stage.home.deployments, `${row.id}.before.zip`)), 'the edited file is kept')

  const undo = await (await stage.deployer.undo(project.id, { actor: admin })).finished
  t.match(undo, { status: 'success', undoOf: row.id })
  t.equal(readFileSync(at('bytes'), 'utf8'), 'by hand', 'a repair can be undone')
  t.equal(lstatSync(at('type')).isSymbolicLink() && readlinkSync(at('type')), 'same')
  t.equal(second.status, 'success')
})

t.test('repairs only the paths that are named', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x', b: 'x', c: 'x' })
  for (const name of ['a', 'b']) rmSync(join(project.deployPath, name))
  await t.rejects(repair(stage, project, { paths: ['a', 'other'] }), {
    code: 'invalid_field',
    message: '"other" in "paths" is not a file that svc put there'
  })
  await t.rejects(repair(stage, project, { paths: ['c'] }), { code: 'nothing_to_repair' })
  t.match(await repair(stage, project, { paths: ['a'] }), { status: 'success', fileCount: 1 })
  t.strictSame(await differing(stage, project), ['b missing'])
  await repair(stage, project)
  await t.rejects(repair(stage, project), { code: 'nothing_to_repair', kind: 'conflict' })
  const empty = await stage.addProject({ name: 'empty', deployPath: join(stage.directory, 'empty') })
  await t.rejects(repair(stage, empty), { code: 'nothing_to_repair', message: deploySays.nothingPlaced('empty') })
  const none = { different: [], unknown: [], missing: 'building' as const }
  const building = { ...stage, files: {} as DeployFiles, verifier: { differences: async () => none } }
  const asked = { paths: null, signal: never }
  await t.rejects(findRepair(building, project, asked), { code: 'tree_not_ready' }, 'nothing is known yet')
  const goal = { paths: [], runScripts: false }
  await t.rejects(repairState(building, { project, goal, signal: never }), { code: 'tree_not_ready' })
  await t.rejects(stage.deployer.repair('proj_x', { actor: admin, signal: never }), { code: 'not_found' })
})

t.test('runs scripts only if they are asked for', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ postDeployScript: 'echo ran >> ../ran' })
  const ran = (): number => readFileSync(join(project.deployPath, '../ran'), 'utf8').split('\n').length - 1
  await stage.deploy(project, { a: 'x' })
  t.equal(ran(), 1)
  for (const runScripts of [undefined, false, true]) {
    rmSync(join(project.deployPath, 'a'))
    t.match(await repair(stage, project, { runScripts }), { status: 'success' })
  }
  t.equal(ran(), 2)
})

t.test('refuses files whose contents are not kept', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const { id } = await stage.deploy(project, { a: 'x', b: 'x' })
  const second = await stage.deploy(project, { b: 'y' })
  for (const name of ['a', 'b']) rmSync(join(project.deployPath, name))
  rmSync(join(stage.home.deployments, `${id}.zip`))
  await t.rejects(repair(stage, project), {
    code: 'no_content',
    message: `Cannot put "a" back: the archive of deployment ${id}, which contains it, has been removed. Deploy again`
  })
  t.notOk(existsSync(join(project.deployPath, 'b')), 'nothing was changed')
  t.match(await repair(stage, project, { paths: ['b'] }), { status: 'success' })
  t.equal(second.status, 'success')
})

t.test('a directory in the way stops the whole repair', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x', b: 'x' })
  for (const name of ['a', 'b']) rmSync(join(project.deployPath, name))
  mkdirSync(join(project.deployPath, 'a'))
  writeFileSync(join(project.deployPath, 'a/own'), '')
  const row = await repair(stage, project)
  t.match(row, { status: 'failed', placed: null })
  t.match(row.errorMessage, '"a/own", which svc did not put there')
  t.strictSame(readdirSync(project.deployPath), ['a'])
  rmSync(join(project.deployPath, 'a/own'))
  t.match(await repair(stage, project), { status: 'success' }, 'an empty one gives way')
})

t.test('repairs what is still different when it starts', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject({ preDeployScript: 'sleep 0.5' })
  await stage.deploy(project, { a: 'one', b: 'one' })
  for (const name of ['a', 'b']) rmSync(join(project.deployPath, name))
  const push = await stage.push(project, { a: 'two' })
  const run = await stage.deployer.repair(project.id, { actor: admin, signal: never })
  await push.finished
  t.match(await run.finished, { status: 'success', fileCount: 1 })
  t.equal(readFileSync(join(project.deployPath, 'a'), 'utf8'), 'two')
  t.equal(readFileSync(join(project.deployPath, 'b'), 'utf8'), 'one')
})
