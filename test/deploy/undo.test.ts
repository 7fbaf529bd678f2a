import t from 'tap'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { admin, deployStage } from '../support/deploy-stage.js'
import { exactTree } from '../support/exact-tree.js'
import { soon } from '../support/until.js'

t.test('an exact way back', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage
  const actor = admin
  const undo = async (project: Project, force = false): Promise<DeploymentRow> => {
    const row = await (await deployer.undo(project.id, { actor, force })).finished
    await deployer.ownedTree(project.id)
    return row
  }
  const exactly = async (project: Project, to: string, force = false): Promise<DeploymentRow> => {
    const row = await (await deployer.rollback(to, { mode: 'exact', actor, force })).finished
    await deployer.ownedTree(project.id)
    return row
  }
  const managed = { policy: { prune: 'managed' } } as const
  const place = (project: Project, path: string): string => join(project.deployPath, path)

  /** Edits a file. Node sets times in microseconds, so an exact way back restores no finer ones. */
  const edit = (project: Project, path: string, text: string): void => {
    writeFileSync(place(project, path), text)
    utimesSync(place(project, path), 1_700_000_000.25, 1_700_000_000.25)
  }

  t.test('undoes additions, changes and removals, and the undo can be undone', async t => {
    const project = await stage.addProject(managed)
    await stage.deploy(project, { a: 'one', 'lib/b.js': 'one', 'old/c.js': 'one', same: 'same' })
    chmodSync(place(project, 'same'), 0o640)
    utimesSync(place(project, 'same'), 1_700_000_000.123_457, 1_700_000_000.123_457)
    const first = exactTree(project.deployPath)
    const second = await stage.deploy(project, { a: 'two', 'lib/b.js': 'one', 'new/d.js': 'two', same: 'same' })
    const then = exactTree(project.deployPath)
    t.notSame(then, first)

    const back = await undo(project)
    t.match(back, { status: 'success', exact: true, undoOf: second.id, triggerSource: 'rollback', hasArtifact: true })
    t.strictSame(exactTree(project.deployPath), first)
    t.match(stage.audits.at(-1), { action: 'deployment.undo', target: back.id, detail: `of ${second.id}` })
    t.match(await stage.output(back.id), /over 1 deployment: brings back \d files, removes 1/)

    t.match(await undo(project), { status: 'success', undoOf: back.id })
    t.strictSame(exactTree(project.deployPath), then)
  })

  t.test('refuses a target in which nothing is left, unless it is forced', async t => {
    const project = await stage.addProject()
    await stage.deploy(project, { a: 'one', 'd/b': 'one' })
    const before = exactTree(project.deployPath)
    await stage.deploy(project, { a: 'two', 'd/b': 'two' })
    for (const path of ['a', 'd']) rmSync(place(project, path), { recursive: true })
    t.match(await undo(project), { status: 'failed', errorMessage: /No file was changed: .* not there any more/ })
    const plan = await deployer.planUndo(project.id, { signal: soon() })
    t.match(
      plan.checks.filter(({ ok }) => !ok),
      [{ code: 'target_emptied' }],
      'its plan says the same'
    )
    t.match(await undo(project, true), { status: 'success' })
    t.strictSame(Object.keys(exactTree(project.deployPath)), Object.keys(before))
    t.equal(readFileSync(place(project, 'd/b'), 'utf8'), 'one')
  })

  t.test('by force, edited files that no undone deployment changed come back, too', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: 'one', b: 'one' })
    await stage.deploy(project, { a: 'two', b: 'one' })
    edit(project, 'b', 'by hand')
    const plan = await deployer.planRollback(first.id, {
      mode: 'exact',
      force: true,
      signal: soon()
    })
    t.match(plan.paths, { changed: ['a', 'b'] })
    t.match(await exactly(project, first.id, true), { status: 'success' })
    t.strictSame(
      ['a', 'b'].map(path => readFileSync(place(project, path), 'utf8')),
      ['one', 'one']
    )
    edit(project, 'b', 'again')
    const live = stage.row(first.id)
    t.match(await exactly(project, live.id, true), { status: 'success' })
    t.equal(readFileSync(place(project, 'b'), 'utf8'), 'one')
  })

  t.test('the plan of an overlay applies the policy, as its deployment does', async t => {
    const project = await stage.addProject({ policy: { drift: 'refuse', prune: 'managed' } })
    const first = await stage.deploy(project, { a: 'one' })
    await stage.deploy(project, { a: 'two', c: 'two' })
    edit(project, 'a', 'by hand')
    const plan = await deployer.planRollback(first.id, { mode: 'overlay', signal: soon() })
    t.match(
      plan.checks.filter(({ ok }) => !ok),
      [{ name: 'edited_files', code: 'target_drifted' }]
    )
    t.strictSame(plan.paths.pruned, ['c'])
    const row = await (await deployer.rollback(first.id, { mode: 'overlay', actor })).finished
    t.match(row, { status: 'failed', errorMessage: /edited on the server/ })
  })

  t.test('goes back over several deployments; a file of a later release is gone', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { 'a.js': '1', 'b.js': '1' })
    const tree = exactTree(project.deployPath)
    await stage.deploy(project, { 'a.js': '2', 'c.js': '2' })
    await stage.deploy(project, { 'a.js': '3', 'c.js': '3', 'd/e.js': '3' })
    await stage.deploy(project, { 'b.js': '4' })
    const back = await exactly(project, first.id)
    t.match(back, { status: 'success', rollbackOf: first.id, exact: true, undoOf: null, treeSha256: first.treeSha256 })
    t.strictSame(exactTree(project.deployPath), tree)
    t.match(await stage.output(back.id), `over 3 deployments: brings back 2 files, removes 2`)
    t.match(stage.audits.at(-1), { action: 'deployment.rollback', detail: `exactly to ${first.id}` })
    await t.rejects(deployer.rollback(back.id, { actor }), { code: 'partial_archive' })
    t.match(await exactly(project, back.id), { status: 'success' }, 'to the state that is there')
    t.strictSame(exactTree(project.deployPath), tree)
  })

  t.test('undoes a first deployment over a directory that was made by hand', async t => {
    const project = await stage.addProject()
    mkdirSync(place(project, 'sub'), { recursive: true })
    writeFileSync(place(project, 'a'), 'mine')
    edit(project, 'sub/b', 'mine, too')
    symlinkSync('a', place(project, 'link'))
    chmodSync(place(project, 'a'), 0o751)
    utimesSync(place(project, 'a'), 1_600_000_000.654_321, 1_600_000_000.654_321)
    const tree = exactTree(project.deployPath)
    const first = await stage.deploy(project, {
      a: 'theirs',
      'sub/b': 'theirs',
      'sub/c': 'new',
      link: 'a file',
      'x/y/z': '1'
    })
    t.equal(first.status, 'success')
    const back = await undo(project)
    t.match(back, { status: 'success', rollbackOf: null, undoOf: first.id, treeSha256: null })
    t.strictSame(exactTree(project.deployPath), tree)
    t.match(await undo(project), { status: 'success' })
    t.equal(readFileSync(place(project, 'x/y/z'), 'utf8'), '1')
  })

  t.test('undoes a deployment that failed after its files were in place; nine of them leave the way back', async t => {
    const project = await stage.addProject({ postDeployScript: 'test "$(cat a)" = good' })
    const good = await stage.deploy(project, { a: 'good', b: 'good' })
    const tree = exactTree(project.deployPath)
    for (let i = 0; i < 9; i++)
      t.match(await stage.deploy(project, { a: `bad ${i}`, [`new${i}`]: '' }), { status: 'failed' })
    t.match(await undo(project), { undoOf: stage.row(good.id) === undefined ? '' : String })
    t.notOk(existsSync(place(project, 'new8')))
    await stage.deploy(project, { a: 'good', c: 'good' })
    t.match(await exactly(project, good.id), { status: 'success' })
    t.strictSame(exactTree(project.deployPath), tree)
  })

  t.test('keeps files that were edited since, unless it is forced; then an undo restores the edit', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1', config: '1' })
    const tree = exactTree(project.deployPath)
    await stage.deploy(project, { a: '2', config: '2', added: '2' })
    edit(project, 'config', '2 by hand')
    edit(project, 'added', '2 by hand')
    const back = await exactly(project, first.id)
    t.match(back, { status: 'success', treeSha256: null })
    t.match(await stage.output(back.id), /kept "added".*\n.*kept "config"/)
    t.equal(readFileSync(place(project, 'config'), 'utf8'), '2 by hand')
    const before = exactTree(project.deployPath)
    t.match(await exactly(project, first.id, true), { status: 'success', treeSha256: first.treeSha256 })
    t.strictSame(exactTree(project.deployPath), tree)
    t.match(await undo(project), { status: 'success' })
    t.strictSame(exactTree(project.deployPath), before)
    const begun = stage.audits.filter(
      ({ action, projectId }) => projectId === project.id && /rollback|undo/.test(action)
    )
    t.match(begun, [
      { action: 'deployment.rollback', detail: `exactly to ${first.id}` },
      { action: 'deployment.rollback', detail: `exactly to ${first.id}, forced` },
      { action: 'deployment.undo', detail: /^of dep_\w+$/ }
    ])
  })

  t.test('is refused if contents or records are gone', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1', b: '1' })
    const second = await stage.deploy(project, { a: '2' })
    const third = await stage.deploy(project, { a: '3' })
    t.match(deployer.exactWindow(project.id), {
      undo: { deployId: third.id },
      exactBackTo: { deployId: null, steps: 3 }
    })
    rmSync(join(stage.home.deployments, `${first.id}.zip`))
    t.match(deployer.exactWindow(project.id), {
      undo: { deployId: third.id },
      exactBackTo: { deployId: second.id, steps: 1 }
    })
    const failed = await exactly(project, first.id)
    t.match(failed, { status: 'failed', placed: null })
    t.match(failed.errorMessage, `the archive of ${first.id}, which contains "a", has been removed`)
    t.match(failed.errorMessage, '--overlay')
    t.equal(readFileSync(place(project, 'a'), 'utf8'), '3')
    rmSync(join(stage.home.deployments, `${second.id}.manifest`))
    t.match(await exactly(project, first.id), {
      status: 'failed',
      errorMessage: 'the list of its files has been removed'
    })
    t.match(await undo(project), { status: 'success' }, 'the last one can still be undone')
    t.equal(readFileSync(place(project, 'a'), 'utf8'), '2')
  })

  t.test('is refused over an import without a record', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1' })
    await stage.deploy(project, { a: '2' })
    const archivePath = join(stage.home.deployments, `${first.id}.zip`)
    await deployer.restore({ projectId: project.id, archivePath, deployId: null })
    await t.rejects(deployer.undo(project.id, { actor }), { code: 'foreign_change' })
    await t.rejects(deployer.rollback(first.id, { mode: 'exact', actor }), { code: 'foreign_change' })
    t.strictSame(deployer.exactWindow(project.id), { undo: null, exactBackTo: null })
    const third = await stage.deploy(project, { a: '3' })
    t.match(deployer.exactWindow(project.id), { undo: { deployId: third.id }, exactBackTo: null })
    t.match(await undo(project), { status: 'success', rollbackOf: null })
    t.equal(readFileSync(place(project, 'a'), 'utf8'), '1', 'as the import left it')
  })

  t.test('undoes the restore of an import that has a record', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1' })
    await stage.deploy(project, { a: '2', b: '2' })
    const tree = exactTree(project.deployPath)
    writeFileSync(place(project, 'a'), 'by hand')
    utimesSync(place(project, 'a'), 1_700_000_000.5, 1_700_000_000.5)
    const edited = exactTree(project.deployPath)
    t.notSame(edited, tree)
    const archivePath = join(stage.home.deployments, `${first.id}.zip`)
    await deployer.restore({ projectId: project.id, archivePath, deployId: first.id })
    t.match(await undo(project), { status: 'success', undoOf: first.id })
    t.strictSame(exactTree(project.deployPath), edited)
  })

  t.test('takes back nothing that went to another directory, and does not say so', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1' })
    const moved = { ...project, deployPath: `${project.deployPath}-moved` }
    await stage.change(project, { deployPath: moved.deployPath })
    const ofFirst = new RegExp(`${first.id} cannot be undone, because its files went to another directory`)
    await t.rejects(deployer.undo(project.id, { actor }), { code: 'not_exact', message: ofFirst })
    t.strictSame(deployer.exactWindow(project.id), { undo: null, exactBackTo: null })
    const second = await stage.deploy(moved, { a: '2' })
    const before = new RegExp(`${second.id} cannot be undone, because the files of ${first.id} before it went`)
    await t.rejects(deployer.undo(project.id, { actor }), { code: 'not_exact', message: before })
    t.strictSame(deployer.exactWindow(project.id), { undo: null, exactBackTo: null })
    const third = await stage.deploy(moved, { a: '3', c: '3' })
    t.match(deployer.exactWindow(project.id), { undo: { deployId: third.id }, exactBackTo: { steps: 1 } })
    await stage.change(project, { deployPath: project.deployPath })
    await t.rejects(deployer.undo(project.id, { actor }), { code: 'not_exact', message: new RegExp(third.id) })
    t.match(deployer.exactWindow(project.id), { undo: null, exactBackTo: { deployId: first.id, steps: 2 } })
    const back = await (await deployer.rollback(first.id, { mode: 'exact', actor })).finished
    t.match(back, { status: 'success' }, 'the files in the other directory stay')
    t.strictSame(
      [project, moved].map(each => readFileSync(place(each, 'a'), 'utf8')),
      ['1', '3']
    )
  })

  t.test('follows the policy of the project', async t => {
    const project = await stage.addProject({ policy: { rollback: 'exact' } })
    const first = await stage.deploy(project, { a: '1' })
    await stage.deploy(project, { a: '2', b: '2' })
    const row = await (await deployer.rollback(first.id, { actor })).finished
    t.match(row, { status: 'success', exact: true })
    t.notOk(existsSync(place(project, 'b')))
    const overlay = await (await deployer.rollback(first.id, { actor, mode: 'overlay' })).finished
    t.match(overlay, { status: 'success', exact: false })
  })

  t.test('passes the mode to scripts, and runs the client scripts of the deployment that it goes back to', async t => {
    const project = await stage.addProject()
    await stage.deploy(
      project,
      { a: '1' },
      { postDeploy: 'echo "first: $SVC_DEPLOY_MODE $SVC_ROLLBACK_OF"; cat "$SVC_CHANGES"' }
    )
    const second = await stage.deploy(project, { a: '2', b: '2' })
    const back = await undo(project)
    t.match(await stage.output(back.id), `first: rollback ${back.rollbackOf}`)
    t.match(await stage.output(back.id), /^.*a\n.*- b$/m)
    t.equal(second.status, 'success')
  })

  t.test('is refused if nothing is deployed, or another deployment came first', async t => {
    const project = await stage.addProject({ preDeployScript: 'sleep 0.2' })
    await t.rejects(deployer.undo(project.id, { actor }), { code: 'nothing_to_undo' })
    await stage.deploy(project, { a: '1' })
    const run = await stage.push(project, { a: '2' })
    const refused = await (await deployer.undo(project.id, { actor })).finished
    t.equal((await run.finished).status, 'success')
    t.match(refused, { status: 'failed', placed: null, errorMessage: 'was made in the meantime' })
    t.equal(readFileSync(place(project, 'a'), 'utf8'), '2')
  })
})
