import t from 'tap'
import { appendFileSync, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { admin, deployStage, never } from '../support/deploy-stage.js'
import { exactTree } from '../support/exact-tree.js'

t.test('plans of rollbacks', async t => {
  const stage = await deployStage(t)
  const { deployer } = stage
  const managed = { policy: { prune: 'managed' } } as const
  const place = (project: { deployPath: string }, path: string): string => join(project.deployPath, path)

  t.test('says what it would do, and changes nothing', async t => {
    const project = await stage.addProject(managed)
    const first = await stage.deploy(project, { a: '1', 'old/b': '1', c: '1' })
    const second = await stage.deploy(project, { a: '2', c: '2', new: '2' })
    appendFileSync(place(project, 'c'), ' by hand')
    const tree = exactTree(project.deployPath)
    const names = readdirSync(stage.home.deployments)
    const request = { signal: never }
    t.match(await deployer.planUndo(project.id, request), {
      mode: 'exact',
      to: { deployId: first.id },
      over: 1,
      problem: null,
      counts: { added: 1, changed: 1, pruned: 1, drifted: 1 },
      paths: { added: ['old/b'], pruned: ['new'], drifted: [{ path: 'c' }] }
    })
    t.match(await deployer.planRollback(first.id, request), {
      mode: 'overlay',
      to: { deployId: first.id },
      over: 0,
      counts: { added: 1, changed: 2, pruned: 1 }
    })
    rmSync(join(stage.home.deployments, `${second.id}.manifest`))
    t.match(await deployer.planRollback(first.id, { ...request, mode: 'exact' }), { problem: { code: 'not_exact' } })
    t.strictSame(exactTree(project.deployPath), tree)
    t.strictSame(
      readdirSync(stage.home.deployments),
      names.filter(name => name !== `${second.id}.manifest`)
    )
  })

  t.test('names no files of an umask', async t => {
    const project = await stage.addProject({ umask: '0027' })
    await stage.deploy(project, { a: '1' })
    await stage.change(project, { umask: '0077' })
    await stage.deploy(project, { a: '2' })
    const plan = await deployer.planUndo(project.id, { signal: never })
    t.match(plan, { counts: { changed: 1 }, paths: { changed: ['a'] }, problem: null })
    t.equal((await (await deployer.undo(project.id, { actor: admin })).finished).status, 'success')
    const now = await deployer.planUndo(project.id, { signal: never })
    t.match(now, { counts: { changed: 1 } })
    const overlay = await deployer.planRollback(now.to?.deployId ?? '', { signal: never, mode: 'overlay' })
    t.match(overlay, { counts: { changed: 1, unchanged: 0 } })
  })

  t.test('takes edited files back if it is forced', async t => {
    const project = await stage.addProject()
    await stage.deploy(project, { a: '1' })
    await stage.deploy(project, { a: '2', b: '2' })
    writeFileSync(place(project, 'b'), 'by hand')
    t.match(await deployer.planUndo(project.id, { signal: never }), { counts: { pruned: 0, kept: 1, drifted: 1 } })
    t.match(await deployer.planUndo(project.id, { signal: never, force: true }), { counts: { pruned: 1, kept: 0 } })
    t.ok(existsSync(place(project, 'b')))
  })

  t.test('says why it would be refused, and refuses what does not exist', async t => {
    const project = await stage.addProject()
    t.match(await deployer.planUndo(project.id, { signal: never }), { to: null, problem: { code: 'nothing_to_undo' } })
    await t.rejects(deployer.planUndo('proj_none', { signal: never }), { code: 'not_found' })
    await t.rejects(deployer.planRollback('dep_none', { signal: never }), { code: 'not_found' })
  })
})
