import t from 'tap'
import { chmodSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { VerifyEvent } from '../../lib/model/verify.js'
import { createVerifier } from '../../lib/deploy/verify.js'
import { createExecutors } from '../../lib/install/unpack/executors.js'
import { aProject } from '../store/stage.js'
import { deployStage, never, type DeployStage } from '../support/deploy-stage.js'

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
