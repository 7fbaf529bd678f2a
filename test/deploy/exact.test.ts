import t from 'tap'
import {
  chmodSync,
  existsSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { deployStage } from '../support/deploy-stage.js'
import type { Project } from '../../lib/model/project.js'

const admin = { name: 'admin', ip: '192.0.2.1' }

/** What is at each path: type, permissions, contents, and the time in microseconds (of files and links). */
function stateOf(directory: string): Record<string, string> {
  const found: Record<string, string> = {}
  const visit = (path: string): void => {
    for (const name of readdirSync(join(directory, path)).sort()) {
      const way = path === '' ? name : `${path}/${name}`
      const place = join(directory, way)
      const stats = lstatSync(place)
      const mode = (stats.mode & 0o7777).toString(8)
      const time = Math.round(stats.mtimeMs * 1000)
      if (stats.isDirectory()) {
        found[`${way}/`] = mode
        visit(way)
      } else if (stats.isSymbolicLink()) found[way] = `-> ${readlinkSync(place)} ${time}`
      else found[way] = `${mode} ${time} ${readFileSync(place, 'latin1')}`
    }
  }
  visit('')
  return found
}

t.test('exact rollbacks', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage
  const place = (project: Project, path: string): string => join(project.deployPath, path)
  const settled = async (projectId: string): Promise<void> => void (await deployer.ownedTree(projectId))
  const undo = async (project: Project, force = false) => {
    const row = await (await deployer.undo(project.id, { force, actor: admin })).finished
    await settled(project.id)
    return row
  }
  const rollBack = async (to: string, force = false) => {
    const row = await (await deployer.rollback(to, { mode: 'exact', force, actor: admin })).finished
    await settled(row.projectId)
    return row
  }
  const allowPrune = { policy: { prune: 'managed' } } as const

  t.test('an undo restores every path, byte, mode and time, and can be undone', async t => {
    const project = await stage.addProject(allowPrune)
    const first = await stage.deploy(project, { a: 'one', 'old/x': 'x', 'old/y': 'y', same: 's', mode: 'm' })
    chmodSync(place(project, 'old'), 0o710)
    utimesSync(place(project, 'a'), 1_700_000_000.123457, 1_700_000_000.123457)
    await settled(project.id)
    const before = stateOf(project.deployPath)
    const second = await stage.deploy(project, { a: 'two', 'new/z': 'z', same: 's', mode: 'm' })
    const after = stateOf(project.deployPath)
    t.notOk(existsSync(place(project, 'old')))
    const undone = await undo(project)
    t.match(undone, {
      status: 'success',
      triggerSource: 'rollback',
      exact: true,
      undoOf: second.id,
      rollbackOf: first.id
    })
    t.strictSame(stateOf(project.deployPath), before)
    t.equal(undone.treeSha256, first.treeSha256)
    t.match(await stage.output(undone.id), new RegExp(`exactly to ${first.id}, over 1 deployment: brings back`))
    const again = await undo(project)
    t.match(again, { status: 'success', undoOf: undone.id, rollbackOf: second.id })
    t.strictSame(stateOf(project.deployPath), after)
    t.match(stage.audits.at(-1), { action: 'deployment.undo', detail: `of ${undone.id}` })
  })

  t.test('a rollback goes back over several deployments, also failed ones', async t => {
    const project = await stage.addProject({ postDeployScript: 'test ! -e fail' })
    await stage.deploy(project, { a: '0', b: '0' })
    const goal = await stage.deploy(project, { a: '1', c: '1' })
    const before = stateOf(project.deployPath)
    for (let i = 0; i < 9; i++)
      t.match(await stage.deploy(project, { a: `f${i}`, fail: 'x', [`n${i}`]: 'n' }), { status: 'failed' })
    rmSync(place(project, 'fail'))
    await stage.deploy(project, { a: '2', b: '2' })
    const back = await rollBack(goal.id)
    t.match(back, { status: 'success', rollbackOf: goal.id, undoOf: null, exact: true })
    const state = stateOf(project.deployPath)
    t.strictSame(state, before)
  })

  t.test('a first deployment over files of somebody else is undone exactly', async t => {
    const project = await stage.addProject()
    mkdirSync(place(project, 'dir'), { recursive: true })
    writeFileSync(place(project, 'a'), 'by hand')
    writeFileSync(place(project, 'dir/b'), 'x'.repeat(5_000_000))
    writeFileSync(place(project, 'mine'), 'mine')
    symlinkSync('/outside', place(project, 'link'))
    chmodSync(place(project, 'a'), 0o604)
    utimesSync(place(project, 'a'), 1_600_000_000.000001, 1_600_000_000.000001)
    lutimesSync(place(project, 'link'), 1_500_000_000, 1_500_000_000)
    // Node reads nanoseconds and sets microseconds.
    utimesSync(place(project, 'dir/b'), 1_600_000_001.5, 1_600_000_001.5)
    const before = stateOf(project.deployPath)
    const first = await stage.deploy(project, { a: '1', 'dir/b': '1', link: 'a file', 'new/c': '1' })
    t.ok(existsSync(join(stage.home.deployments, `${first.id}.before.zip`)))
    const undone = await undo(project)
    t.match(
      undone,
      { status: 'success', rollbackOf: null, triggerSource: 'rollback', treeSha256: null },
      undone.errorMessage ?? ''
    )
    t.strictSame(stateOf(project.deployPath), before)
    t.match(deployer.exactWindow(project.id), {
      undo: { deployId: undone.id },
      exactBackTo: { deployId: null, steps: 2 }
    })
  })

  t.test('edited files stay, unless they are forced', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1', b: '1', c: '1' })
    await stage.deploy(project, { a: '2', b: '2', c: '2', d: '2', e: '2' })
    writeFileSync(place(project, 'a'), 'edited')
    writeFileSync(place(project, 'd'), 'edited')
    rmSync(place(project, 'c'))
    const plan = await deployer.planUndo(project.id, { signal: new AbortController().signal })
    t.match(plan, { mode: 'exact', to: { deployId: first.id }, over: 1, problem: null })
    t.match(plan.paths, { pruned: ['e'], changed: ['b'], drifted: [{ path: 'a' }, { path: 'c' }, { path: 'd' }] })
    const careful = await undo(project)
    t.equal(careful.treeSha256, null, 'it is not the tree of the first deployment')
    t.match(await stage.output(careful.id), /kept "a".*\n.*kept "c".*\n.*kept "d"/)
    t.strictSame(readdirSync(project.deployPath), ['a', 'b', 'd'])
    t.equal(readFileSync(place(project, 'a'), 'utf8'), 'edited')
    const forced = await rollBack(first.id, true)
    t.equal(forced.treeSha256, first.treeSha256)
    t.strictSame(readdirSync(project.deployPath), ['a', 'b', 'c'])
    await undo(project)
    t.equal(readFileSync(place(project, 'a'), 'utf8'), 'edited', 'what was forced away comes back, too')
  })

  t.test('a file of which only the time was changed is as the goal left it, if it is forced', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1', b: '1' })
    const before = stateOf(project.deployPath)
    utimesSync(place(project, 'a'), 1_600_000_000.000001, 1_600_000_000.000001)
    const touched = stateOf(project.deployPath)
    const forced = await rollBack(first.id, true)
    t.strictSame(stateOf(project.deployPath), before)
    t.match(await stage.output(forced.id), /brings back 1 file, removes 0/)
    await undo(project)
    t.strictSame(stateOf(project.deployPath), touched)
  })

  t.test('a way back to the files that are there brings nothing back', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1', b: '1' })
    await undo(project)
    await undo(project)
    const again = await rollBack(first.id)
    t.match(await stage.output(again.id), /brings back 0 files, removes 0/)
    t.equal(again.treeSha256, first.treeSha256)
  })

  t.test('refuses what it cannot restore, and names it', async t => {
    const project = await stage.addProject()
    await t.rejects(deployer.undo(project.id, { actor: admin }), { kind: 'conflict', code: 'nothing_to_undo' })
    const first = await stage.deploy(project, { a: '1' })
    const second = await stage.deploy(project, { a: '2' })
    rmSync(join(stage.home.deployments, `${first.id}.zip`))
    const notExact = new RegExp(
      `deployment ${first.id} .* because the archive of ${first.id}, which contains "a", .*--overlay`
    )
    t.match(await undo(project), { status: 'failed', errorMessage: notExact })
    t.equal(readFileSync(place(project, 'a'), 'utf8'), '2')
    const { signal } = new AbortController()
    t.match(await deployer.planUndo(project.id, { signal }), { problem: { code: 'not_exact', message: notExact } })
    t.match(deployer.exactWindow(project.id), { undo: null, exactBackTo: null })
    rmSync(join(stage.home.deployments, `${second.id}.manifest`))
    t.match(await undo(project), { status: 'failed', errorMessage: /the list of its files has been removed/ })
  })

  t.test('refuses before the pre-deploy script runs', async t => {
    const project = await stage.addProject({ preDeployScript: 'echo the script ran' })
    const first = await stage.deploy(project, { a: '1' })
    await stage.deploy(project, { a: '2' })
    rmSync(join(stage.home.deployments, `${first.id}.zip`))
    const undone = await undo(project)
    t.match(undone, { status: 'failed', errorMessage: /Cannot go back exactly/ })
    t.notMatch(await stage.output(undone.id), /the script ran/)
  })

  t.test('an archive of differences is not put over other files', async t => {
    const project = await stage.addProject({ policy: { rollback: 'exact' } })
    const first = await stage.deploy(project, { a: '1', b: '1' })
    await stage.deploy(project, { a: '2', b: '1' })
    await settled(project.id)
    const back = await (await deployer.rollback(first.id, { actor: admin })).finished
    t.match(back, { status: 'success', exact: true, fileCount: 1 })
    await settled(project.id)
    await t.rejects(deployer.rollback(back.id, { mode: 'overlay', actor: admin }), { code: 'partial_archive' })
    await stage.deploy(project, { a: '3', b: '3' })
    t.match(await rollBack(back.id), { status: 'success' })
    t.equal(readFileSync(place(project, 'b'), 'utf8'), '1')
  })

  t.test('an undo applies to one deployment, and to no later one', async t => {
    const project = await stage.addProject({ postDeployScript: 'test ! -e slow || sleep 1' })
    await stage.deploy(project, { a: '1' })
    const slow = await stage.push(project, { a: '2', slow: 'x' })
    const undone = deployer.undo(project.id, { actor: admin })
    await slow.finished
    const row = await (await undone).finished
    // It was asked for before or after the slow one had changed the target.
    t.equal(row.status, row.undoOf === slow.deployId ? 'success' : 'failed')
  })

  t.test('nobody goes back over an import without a record', async t => {
    const project = await stage.addProject()
    const first = await stage.deploy(project, { a: '1' })
    const archivePath = join(stage.home.deployments, `${first.id}.zip`)
    await deployer.restore({ projectId: project.id, archivePath, deployId: null })
    await t.rejects(deployer.undo(project.id, { actor: admin }), { code: 'foreign_change' })
    const second = await stage.deploy(project, { a: '2' })
    t.match(deployer.exactWindow(project.id), { undo: { deployId: second.id }, exactBackTo: null })
    await t.rejects(rollBack(first.id), { code: 'foreign_change' })
    t.match(await undo(project), { status: 'success', rollbackOf: null }, 'the state just before comes back')
    t.equal(readFileSync(place(project, 'a'), 'utf8'), '1')
  })
})
