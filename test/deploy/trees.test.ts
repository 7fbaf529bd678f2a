import t from 'tap'
import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createFiles } from '../../lib/deploy/files.js'
import type { Project } from '../../lib/model/project.js'
import type { OwnedEntry } from '../../lib/model/manifest.js'
import { sha256 } from '../../lib/base/digests.js'
import { admin, deployStage, type DeployStage, never } from '../support/deploy-stage.js'
import { Refusal } from '../../lib/base/errors.js'
import { createTreeStates } from '../../lib/deploy/trees.js'
import { setClock } from '../support/clock.js'

async function owned(stage: DeployStage, project: Project): Promise<OwnedEntry[]> {
  const tree = await stage.deployer.ownedTree(project.id, 10_000)
  if (tree.baseline !== 'owned') throw new Error(`The tree is ${tree.baseline}`)
  const entries: OwnedEntry[] = []
  for await (const entry of tree.entries()) entries.push(entry)
  return entries
}

/** What the target contains, in the form of an owned tree. */
function found(project: Project, since: Record<string, string>): OwnedEntry[] {
  return Object.entries(since).map(([path, deployId]) => {
    const place = join(project.deployPath, path)
    const { mode, mtimeMs, ino } = lstatSync(place)
    const contents = readFileSync(place)
    return {
      path,
      mode,
      size: contents.length,
      sha256: sha256(contents).toString('hex'),
      mtimeMs,
      ino,
      since: deployId
    }
  })
}

const inAnyFormat = (entries: OwnedEntry[]): unknown[] =>
  entries.map(({ path, mode, size, sha256, mtimeMs, ino, since }) => ({
    path,
    mode,
    size,
    sha256,
    // A time that was set from a double is off by up to a microsecond.
    mtimeMs: mtimeMs === null ? null : Math.round(mtimeMs),
    ino,
    since
  }))

const treeFile = (stage: DeployStage, project: Project): string =>
  join(stage.home.directory, 'trees', `${project.id}.tree`)

t.test('the tree of a project is what svc put into its target', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  t.same(await stage.deployer.ownedTree(project.id), { baseline: 'none' }, 'before the first deployment')
  const first = await stage.deploy(project, { 'a.txt': '1', 'old/b.txt': '1', 'same.txt': 's' })
  t.same(
    inAnyFormat(await owned(stage, project)),
    inAnyFormat(found(project, { 'a.txt': first.id, 'old/b.txt': first.id, 'same.txt': first.id }))
  )
  t.match(first.treeSha256, /^[0-9a-f]{64}$/)
  const second = await stage.deploy(project, { 'a.txt': '2', 'new/c.txt': '2', 'same.txt': 's' })
  writeFileSync(join(project.deployPath, 'mine.txt'), 'of the user')
  const expected = { 'a.txt': second.id, 'new/c.txt': second.id, 'old/b.txt': first.id, 'same.txt': second.id }
  t.same(inAnyFormat(await owned(stage, project)), inAnyFormat(found(project, expected)))
  const run = await stage.deployer.rollback(first.id, { actor: admin })
  const back = await run.finished
  t.equal(back.treeSha256, first.treeSha256, 'a rollback has the tree of its source')
  t.not(second.treeSha256, first.treeSha256)
  const after = { 'a.txt': back.id, 'new/c.txt': second.id, 'old/b.txt': back.id, 'same.txt': back.id }
  t.same(inAnyFormat(await owned(stage, project)), inAnyFormat(found(project, after)))
})

t.test('a failed deployment counts if its files stayed in place', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' })
  await stage.change(project, { preDeployScript: 'exit 1' })
  const untouched = await stage.deploy(project, { 'a.txt': '2', 'b.txt': '2' })
  t.equal(untouched.treeSha256, null, 'nothing was extracted')
  t.same(
    (await owned(stage, project)).map(({ path, since }) => [path, since]),
    [['a.txt', first.id]]
  )
  await stage.change(project, { preDeployScript: '', postDeployScript: 'exit 1' })
  const failed = await stage.deploy(project, { 'a.txt': '3' })
  t.equal(failed.status, 'failed')
  t.same(
    (await owned(stage, project)).map(({ path, since }) => [path, since]),
    [['a.txt', failed.id]]
  )
})

t.test('a tree that is lost, damaged or of another history is made again', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  for (let number = 0; number < 20; number++) {
    await stage.deploy(project, { [`${number % 7}.txt`]: String(number), 'all.txt': String(number) })
  }
  const right = await owned(stage, project)
  t.equal(right.length, 8)
  const path = treeFile(stage, project)
  const text = readFileSync(path, 'utf8')
  rmSync(path)
  t.strictSame(await owned(stage, project), right, 'lost')
  t.equal(readFileSync(path, 'utf8'), text)
  for (const [what, damaged] of [
    ['cut', text.slice(0, -100)],
    ['a changed line', text.replace('100644', '100755')],
    ['another history', text.replace(/^svc-owned 1 \S+/, 'svc-owned 1 dep_aaaaaaaaaaaaaaaa')],
    ['a later moment', text.replace(/^(svc-owned 1 \S+) 20/, '$1 21')],
    ['an older moment', text.replace(/^(svc-owned 1 \S+) 20/, '$1 3')],
    ['empty', '']
  ] as const) {
    writeFileSync(path, damaged)
    t.strictSame(await owned(stage, project), right, what)
    t.equal(readFileSync(path, 'utf8'), text, what)
  }
  rmSync(path)
  mkdirSync(join(path, 'within'), { recursive: true })
  t.strictSame(await owned(stage, project), right, 'a directory')
  t.equal(readFileSync(path, 'utf8'), text)
  writeFileSync(path, text.slice(0, -100))
  const next = await stage.deploy(project, { 'x.txt': 'x' })
  t.equal((await owned(stage, project)).at(-1)?.since, next.id, 'a damaged tree does not stop a deployment')
  t.strictSame(readdirSync(join(stage.home.directory, 'trees')), [`${project.id}.tree`])
})

t.test('manifests of earlier versions are read in their own order', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const names = ['\uffee', '👩', 'a']
  const { id } = await stage.deploy(project, Object.fromEntries(names.map(name => [name, name])))
  const path = createFiles(stage.home).manifest(id)
  const lines = readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as Record<string, unknown>)
  const older = lines
    .map(({ mtimeMs, ino, ...line }) => ({ ...line, isOlder: typeof mtimeMs === 'number' && typeof ino === 'number' }))
    .sort((a, b) => (String((a as { path?: string }).path) < String((b as { path?: string }).path) ? -1 : 1))
  t.ok(older.every(({ isOlder }) => isOlder))
  writeFileSync(path, older.map(line => `${JSON.stringify(line)}\n`).join(''))
  await owned(stage, project)
  rmSync(treeFile(stage, project))
  t.match(await owned(stage, project), [
    { path: 'a', mtimeMs: null, ino: null },
    { path: '\uffee', mtimeMs: null, ino: null },
    { path: '👩', mtimeMs: null, ino: null }
  ])
})

t.test('a tree contains only what svc put into the current directory', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1', 'old.txt': '1' })
  const moved = { ...project, deployPath: `${project.deployPath}-moved` }
  await stage.change(project, { deployPath: moved.deployPath })
  t.same(await stage.deployer.ownedTree(project.id), { baseline: 'none' }, 'svc put nothing there')
  const { id } = await stage.deploy(moved, { 'b.txt': '1' })
  t.same(inAnyFormat(await owned(stage, moved)), inAnyFormat(found(moved, { 'b.txt': id })))
  rmSync(treeFile(stage, project))
  t.same(
    (await owned(stage, moved)).map(({ path }) => path),
    ['b.txt'],
    'also if the tree is made again'
  )
  await stage.change(project, { deployPath: project.deployPath })
  const expected = { 'a.txt': first.id, 'old.txt': first.id }
  t.same(inAnyFormat(await owned(stage, project)), inAnyFormat(found(project, expected)), 'back in the old directory')
})

t.test('an import that restores files is in the tree', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1' })
  const second = await stage.deploy(project, { 'a.txt': '2', 'b.txt': '2' })
  const archivePath = createFiles(stage.home).archive(first.id)
  await stage.deployer.restore({ projectId: project.id, archivePath, deployId: null })
  const [restored] = await owned(stage, project)
  t.same(inAnyFormat([restored as OwnedEntry]), inAnyFormat(found(project, { 'a.txt': restored?.since as string })))
  t.not(restored?.since, second.id)
  await stage.deployer.restore({ projectId: project.id, archivePath, deployId: first.id })
  t.match(await owned(stage, project), [
    { path: 'a.txt', since: first.id, sha256: sha256(Buffer.from('1')).toString('hex') },
    { path: 'b.txt', since: second.id }
  ])
  t.strictSame(stage.faults, [])
})

t.test('a lost or torn manifest does not stop a deployment or a tree', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const first = await stage.deploy(project, { 'a.txt': '1', 'b.txt': '1' })
  const second = await stage.deploy(project, { 'c.txt': '2' })
  const path = createFiles(stage.home).manifest(first.id)
  const text = readFileSync(path, 'utf8')
  for (const torn of [text.slice(0, -20), text.slice(0, text.indexOf('\n') + 1), null]) {
    if (torn === null) rmSync(path)
    else writeFileSync(path, torn)
    rmSync(treeFile(stage, project), { force: true })
    const paths = (await owned(stage, project)).map(({ path }) => path)
    t.ok(paths.includes('c.txt'), `${paths.join(', ')} of deployment ${second.id}`)
    t.notOk(paths.includes('b.txt'), 'a file of which nothing is known is not owned')
  }
  t.match(stage.faults, [[/lacks files/], [/lacks files/]])
})

t.test('the tree of a removed project is removed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { 'a.txt': '1' })
  await owned(stage, project)
  await stage.deployer.removeTree(project.id)
  t.strictSame(readdirSync(join(stage.home.directory, 'trees')), [])
})

t.test('edited files are searched for at most once an hour', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'x' })
  const clock = setClock()
  let searches = 0
  let fault: Error | null = null
  const states = createTreeStates({
    ...stage,
    clock,
    windowOf: () => ({ undo: null, exactBackTo: null }),
    trees: { read: stage.deployer.ownedTree },
    async searchDrift({ id }) {
      searches++
      if (fault !== null) throw fault
      await states.drifted(id, searches)
    }
  })
  const summary = (drift: boolean) => states.summary({ projectId: project.id, drift, signal: never })
  t.match(await summary(false), { files: 1, drift: null })
  t.match(await summary(true), { drift: { count: 1 } })
  clock.advance(59 * 60_000)
  t.match(await summary(true), { drift: { count: 1 } })
  clock.advance(2 * 60_000)
  t.match(await summary(false), { drift: { count: 1 } }, 'only if it was asked for')
  t.match(await summary(true), { drift: { count: 2 } })
  clock.advance(61 * 60_000)
  fault = new Refusal('conflict', 'plan_busy', 'Another comparison is in progress')
  t.match(await summary(true), { drift: { count: 2 } }, 'the earlier result stays')
  fault = new Error('a bug')
  await t.rejects(summary(true), fault)
  states.forget(project.id)
  t.match(await summary(false), { drift: null })
})

t.test('a project without files has an empty summary, and an unknown one is refused', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const ask = (projectId: string) => stage.deployer.treeSummary({ projectId, drift: true, signal: never })
  t.strictSame(await ask(project.id), {
    success: true,
    baseline: 'none',
    files: 0,
    bytes: 0,
    liveId: null,
    treeSha256: null,
    verified: null,
    drift: null,
    undo: null,
    exactBackTo: null
  })
  await t.rejects(ask('proj_x'), { code: 'not_found' })
})
