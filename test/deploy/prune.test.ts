import t, { type Test } from 'tap'
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import type { PruneMode } from '../../lib/model/plan.js'
import type { Project } from '../../lib/model/project.js'
import { admin, deployStage, never } from '../support/deploy-stage.js'
import { exactTree } from '../support/exact-tree.js'
import { treeBody } from '../support/planned.js'
import { snapshot } from '../support/tree.js'

t.test('prune', async t => {
  const stage = await deployStage(t)
  const managed = { policy: { prune: 'managed' } } as const
  const ownedPaths = async (projectId: string): Promise<string[]> => {
    const owned = await stage.deployer.ownedTree(projectId)
    const paths: string[] = []
    if (owned.baseline === 'owned') for await (const { path } of owned.entries()) paths.push(path)
    return paths
  }
  const manifest = (deployId: string): Array<Record<string, unknown>> =>
    readFileSync(join(stage.home.deployments, `${deployId}.manifest`), 'utf8')
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line) as Record<string, unknown>)

  /** Plans the file `a`. */
  const planned = async (t: Test, project: Project, asks: { prune: PruneMode; force?: boolean }) => {
    const tree = await treeBody(t.testdir({ a: '1' }))
    const limits = { listed: 99, mayUpload: true, clientTimeMs: null, noSpace: null, maxUploadBytes: 5 }
    const wishes = { force: false, ...asks }
    return stage.deployer.plan({ projectId: project.id, tree, asks: wishes, scripts: {}, signal: never, ...limits })
  }

  t.test('is off by default', async t => {
    const project = await stage.addProject()
    await stage.deploy(project, { a: 'one', b: 'one' })
    await stage.deploy(project, { a: 'two' })
    t.ok(existsSync(join(project.deployPath, 'b')))
    t.strictSame(await ownedPaths(project.id), ['a', 'b'])
  })

  t.test('removes what svc put there, nobody edited, and the archive does not contain', async t => {
    const project = await stage.addProject(managed)
    const place = (path: string): string => join(project.deployPath, path)
    const first = await stage.deploy(project, {
      'index.html': 'one',
      'assets/old.js': 'old',
      'assets/deep/old.css': 'old',
      'assets/edited.js': 'one',
      'kept/file': 'one',
      gone: 'one'
    })
    writeFileSync(place('assets/edited.js'), 'by hand')
    writeFileSync(place('kept/mine'), 'mine')
    rmSync(place('gone'))
    const second = await stage.deploy(project, { 'index.html': 'two', 'assets/new.js': 'new' })
    t.match(second, { status: 'success', fileCount: 2 })
    t.strictSame(snapshot(project.deployPath), [
      'assets/ 755',
      'assets/edited.js 644 by hand',
      'assets/new.js 644 new',
      'index.html 644 two',
      'kept/ 755',
      'kept/mine 644 mine'
    ])
    t.strictSame(await ownedPaths(project.id), ['assets/edited.js', 'assets/new.js', 'index.html'])
    const output = await stage.output(second.id)
    t.match(output, /kept "assets\/edited.js", which was edited on the server/)
    t.match(output, /extracted 2 files \(.*\), 2 new or changed, 3 removed/)
    const archive = `archive:${first.id}`
    t.match(manifest(second.id), [
      { removed: 'assets/deep', before: { mode: 0o040755 } },
      { removed: 'assets/deep/old.css', before: { size: 3, mode: 0o100644, kept: archive } },
      { path: 'assets/new.js', before: null },
      { removed: 'assets/old.js', before: { kept: archive } },
      { removed: 'gone', before: null },
      { path: 'index.html', before: { kept: archive } },
      { removed: 'kept/file', before: { kept: archive } }
    ])
    t.notOk(existsSync(join(stage.home.deployments, `${second.id}.before.zip`)), 'nothing needs a copy')
    const third = await stage.deploy(project, { 'index.html': 'two' })
    t.match(await stage.output(third.id), /1 removed/)
    t.strictSame(readdirSync(place('assets')), ['edited.js'])
  })

  t.test('leaves what a glob protects', async t => {
    const project = await stage.addProject({ policy: { prune: 'managed', protect: ['uploads/**', '.env*'] } })
    await stage.deploy(project, { a: '1', b: '1', 'uploads/x/file': '1', '.env.local': '1' })
    await stage.deploy(project, { a: '2' })
    t.strictSame(await ownedPaths(project.id), ['.env.local', 'a', 'uploads/x/file'])
    t.ok(existsSync(join(project.deployPath, 'uploads/x/file')))
    t.notOk(existsSync(join(project.deployPath, 'b')))
  })

  t.test('refuses to remove most of the files', async t => {
    const project = await stage.addProject(managed)
    const many = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`f${i}`, 'x']))
    await stage.deploy(project, many)
    const before = snapshot(project.deployPath)
    const refused = await stage.deploy(project, { other: 'x' })
    t.match(refused, { status: 'failed', errorMessage: /60 of the 60 files .* --prune=force$/ })
    t.strictSame(snapshot(project.deployPath), before)
    t.match(await stage.deploy(project, { ...many, f0: 'y' }), { status: 'success' })
  })

  t.test('with force it removes most of the files, but not what is edited, protected or not from svc', async t => {
    const project = await stage.addProject({ policy: { protect: ['uploads/**'] } })
    const place = (path: string): string => join(project.deployPath, path)
    const many = Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`d/f${i}`, 'x']))
    await stage.deploy(project, { ...many, 'uploads/one': '1', edited: '1' })
    writeFileSync(place('edited'), 'by hand')
    writeFileSync(place('mine'), 'mine')
    const push = async (prune: 'managed' | 'force') => {
      const { planId } = await planned(t, project, { prune })
      return planId === null ? null : stage.deploy(project, { a: '1' }, { planId })
    }
    const before = snapshot(project.deployPath)
    t.not((await push('managed'))?.status, 'success')
    t.strictSame(snapshot(project.deployPath), before)
    t.match(await push('force'), { status: 'success' })
    t.strictSame(snapshot(project.deployPath), [
      'a 644 1',
      'edited 644 by hand',
      'mine 644 mine',
      'uploads/ 755',
      'uploads/one 644 1'
    ])
  })

  /** A target that holds files before svc deploys to it. */
  const inhabited = async (more: Parameters<typeof stage.addProject>[0] = {}) => {
    const { policy, ...rest } = more
    const project = await stage.addProject({ policy: { protect: ['uploads/**', 'logs'], ...policy }, ...rest })
    const place = (path: string): string => join(project.deployPath, path)
    for (const path of ['old/deep', 'uploads', 'logs', 'empty']) mkdirSync(place(path), { recursive: true })
    const modes = { a: 0o644, 'old/deep/x': 0o640, 'old/y': 0o755, 'uploads/photo': 0o644, 'logs/l': 0o600, top: 0o604 }
    for (const [path, mode] of Object.entries(modes)) {
      writeFileSync(place(path), `the old ${path}`)
      if (process.getuid?.() === 0) chownSync(place(path), 33, 34)
      chmodSync(place(path), mode)
      utimesSync(place(path), 1_700_000_000.25, 1_700_000_000.25)
    }
    symlinkSync('/nowhere', place('old/link'))
    if (process.getuid?.() === 0) lchownSync(place('old/link'), 33, 34)
    lutimesSync(place('old/link'), 1_700_000_000.25, 1_700_000_000.25)
    chmodSync(place('old/deep'), 0o710)
    const owners = (): string[] =>
      ['a', 'old/deep/x', 'old/link', 'old/y', 'top'].map(path => {
        const { uid, gid } = lstatSync(place(path))
        return `${path} ${uid}:${gid}`
      })
    return { project, place, owners }
  }
  const clean = async (t: Test, project: Project, force = false) => {
    const plan = await planned(t, project, { prune: 'foreign', force })
    return { plan, row: await stage.deploy(project, { a: '1' }, { planId: plan.planId as string }) }
  }

  t.test('removes once what svc did not put there, as its plan says, and an undo brings it back', async t => {
    const { project, owners } = await inhabited()
    const [before, ownersBefore] = [exactTree(project.deployPath), owners()]
    const { plan, row } = await clean(t, project)
    t.match(row, { status: 'success' })
    t.match(plan.counts, { pruned: 4, unowned: 4, protected: 2, foreign: 1 })
    t.strictSame(plan.paths.pruned, ['old/deep/x', 'old/link', 'old/y', 'top'])
    t.strictSame(plan.paths.unowned, [
      { path: 'old/deep/x', size: 18 },
      { path: 'old/link', size: 8 },
      { path: 'old/y', size: 13 },
      { path: 'top', size: 11 }
    ])
    t.strictSame(plan.paths.protected, [
      { path: 'logs/l', size: 14, glob: 'logs' },
      { path: 'uploads/photo', size: 21, glob: 'uploads/**' }
    ])
    t.strictSame(snapshot(project.deployPath), [
      'a 644 1',
      'empty/ 755',
      'logs/ 755',
      'logs/l 600 the old logs/l',
      'uploads/ 755',
      'uploads/photo 644 the old uploads/photo'
    ])
    t.match(await stage.output(row.id), /extracted 1 file \(1 B\), 1 new or changed, 4 removed/)
    t.match(stage.audits.at(-1), { action: 'deployment.upload', detail: 'prune: foreign, 4 files' })
    const after = exactTree(project.deployPath)
    const undo = async () => (await stage.deployer.undo(project.id, { actor: admin })).finished
    t.match(await undo(), { status: 'success' })
    t.strictSame(exactTree(project.deployPath), before)
    t.strictSame(owners(), ownersBefore)
    t.match(await undo(), { status: 'success' })
    t.strictSame(exactTree(project.deployPath), after)
    const again = await planned(t, project, { prune: 'foreign' })
    t.match(again.counts, { pruned: 0, unowned: 0, protected: 2 }, 'nothing is left to be removed')
  })

  t.test(
    'a clean that is reverted puts back what svc did not put there, and an exact rollback brings it back',
    async t => {
      const { project, owners, place } = await inhabited({ postDeployScript: 'test ! -e ../fail' })
      const first = await stage.deploy(project, { a: '1', b: '1' })
      const [before, ownersBefore] = [exactTree(project.deployPath), owners()]
      writeFileSync(place('../fail'), '')
      await stage.change(project, { policy: { protect: ['uploads/**'], onPostFailure: 'revert' } })
      t.match((await clean(t, project)).row, { status: 'failed', revertReason: 'post' })
      t.strictSame(exactTree(project.deployPath), before)
      t.strictSame(owners(), ownersBefore)
      rmSync(place('../fail'))
      t.match((await clean(t, project)).row, { status: 'success' })
      t.strictSame(await ownedPaths(project.id), ['a'])
      t.notOk(existsSync(place('logs')), 'it is not protected any more')
      const back = await stage.deployer.rollback(first.id, { mode: 'exact', actor: admin })
      t.match(await back.finished, { status: 'success' })
      t.strictSame(exactTree(project.deployPath), before)
      t.strictSame(owners(), ownersBefore)
    }
  )

  t.test('a clean is refused if the policy protects what others put there, or if it cannot be kept', async t => {
    const { project } = await inhabited({ policy: { drift: 'refuse' } })
    const before = snapshot(project.deployPath)
    const drifted = await clean(t, project)
    t.match(
      drifted.plan.checks.find(({ name }) => name === 'edited_files'),
      { ok: false, code: 'target_drifted' }
    )
    t.match(drifted.row, { status: 'failed', errorMessage: /put there by somebody else, and the policy "drift"/ })
    t.strictSame(snapshot(project.deployPath), before)
    const { max_before_size } = stage.values
    stage.values.max_before_size = 0
    const large = await clean(t, project, true)
    t.match(
      large.plan.checks.find(({ name }) => name === 'before_limit'),
      { ok: false, code: 'before_too_large' }
    )
    t.match(large.row, { status: 'failed', errorMessage: /max_before_size/ })
    t.strictSame(snapshot(project.deployPath), before)
    stage.values.max_before_size = max_before_size
    const late = await planned(t, project, { prune: 'foreign', force: true })
    const held = { planId: late.planId as string }
    const newer = ['newer', 'newer2', 'newer3', 'newer4'].map(name => join(project.deployPath, name))
    for (const path of newer) writeFileSync(path, '')
    t.match(await stage.deploy(project, { a: '1' }, held), {
      status: 'failed',
      errorMessage:
        /: Nothing was changed: "newer", "newer2", "newer3" and 1 more were added or changed, after the plan of /
    })
    for (const path of [...newer, join(project.deployPath, 'top')]) rmSync(path)
    t.match(await stage.deploy(project, { a: '1' }, held), {
      status: 'failed',
      errorMessage: /: Nothing was changed: files that the plan removes are gone, after the plan of /
    })
    t.match((await clean(t, project, true)).row, { status: 'success' })
  })

  t.test('lists removed files for the post-deploy script', async t => {
    const project = await stage.addProject({ ...managed, postDeployScript: 'cat "$SVC_CHANGES"' })
    await stage.deploy(project, { a: '1', b: '1', c: '1' })
    const second = await stage.deploy(project, { a: '2', c: '1', d: '1' })
    t.match(await stage.output(second.id), /\n(.*)a\n\1- b\n\1d\n/)
  })

  t.test('a failed deployment puts removed files back', async t => {
    const policy = { prune: 'managed', onPostFailure: 'revert' } as const
    const project = await stage.addProject({ policy, postDeployScript: 'test ! -e fail' })
    await stage.deploy(project, { a: '1', 'dir/b': '1' })
    chmodSync(join(project.deployPath, 'dir'), 0o710)
    writeFileSync(join(project.deployPath, 'a'), 'by hand')
    const before = snapshot(project.deployPath)
    const failed = await stage.deploy(project, { a: '2', fail: '1' })
    t.match(failed, { status: 'failed', revertReason: 'post' })
    t.strictSame(snapshot(project.deployPath), before)
    t.strictSame(await ownedPaths(project.id), ['a', 'dir/b'])
    t.notOk(existsSync(join(stage.home.deployments, `${failed.id}.before.zip`)), 'the copy is not needed any more')
  })

  t.test('keeps copies of what no archive contains', async t => {
    const project = await stage.addProject({ policy: { exact: 'required' } })
    mkdirSync(project.deployPath, { recursive: true })
    writeFileSync(join(project.deployPath, 'a'), 'by hand')
    writeFileSync(join(project.deployPath, 'same'), '1')
    const { id } = await stage.deploy(project, { a: '1', same: '1', b: '1' })
    t.ok(existsSync(join(stage.home.deployments, `${id}.before.zip`)))
    t.match(manifest(id), [
      { path: 'a', before: { kept: 'before', size: 7 } },
      { path: 'b', before: null },
      { path: 'same', before: { size: 1 } }
    ])
    stage.values.max_before_size = 0
    writeFileSync(join(project.deployPath, 'a'), 'again')
    const before = snapshot(project.deployPath)
    const refused = await stage.deploy(project, { a: '2' })
    t.match(refused, { status: 'failed', errorMessage: /5 B would be replaced that no archive contains/ })
    t.strictSame(snapshot(project.deployPath), before)
    await stage.change(project, { policy: {} })
    const best = await stage.deploy(project, { a: '2' })
    t.match(manifest(best.id), [{ path: 'a', before: { kept: 'none' } }])
  })
})
