import t from 'tap'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { deployStage, never } from '../support/deploy-stage.js'
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
      const tree = await treeBody(t.testdir({ a: '1' }))
      const limits = { listed: 0, mayUpload: true, clientTimeMs: null, noSpace: null, maxUploadBytes: 5 }
      const asked = {
        projectId: project.id,
        tree,
        asks: { prune, force: false },
        scripts: {},
        signal: never,
        ...limits
      }
      const { planId } = await stage.deployer.plan(asked)
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
