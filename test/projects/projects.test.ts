import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { systemActor as actor } from '../../lib/model/audit.js'
import { createProjects } from '../../lib/projects/projects.js'
import { readRedo } from '../../lib/store/redo.js'
import { listAudit } from '../../lib/store/tables/audit.js'
import { listDeployments } from '../../lib/store/tables/deployments.js'
import { insertDeployments } from '../support/many-deployments.js'
import { openStage } from '../support/store.js'

/** Returns the number of transactions in the redo log of a store. */
function transactionsIn(directory: string): number {
  const { lines } = readRedo(readFileSync(join(directory, 'svc.db.redo')), 'svc.db.redo')
  return lines.flatMap(({ transactions }) => transactions).length
}

t.test('projects', async t => {
  const stage = await openStage(t)
  const { directory, store, clock } = stage
  const home = join(directory, 'home')
  mkdirSync(home)
  const running = new Set<string>()
  const removed: string[][] = []
  const removedTrees: string[] = []
  const kept: Array<{ projectId: string; status: 'success' | 'failed' }> = []
  const projects = createProjects({
    ...stage,
    home,
    deployments: {
      hasRunning: id => running.has(id),
      kept: () => kept,
      removeWith: async (_, work) => void removed.push(await work()),
      removeTree: async id => void removedTrees.push(id)
    }
  })
  const at = (name: string) => join(directory, 'sites', name)

  t.test('records when a project was created and changed', async t => {
    const made = await projects.create({ name: 'shop', deployPath: at('shop') }, actor)
    t.equal(made.createdAt, '2030-01-01T00:00:00.000Z')
    clock.advance(1000)
    const changed = await projects.update(made.id, { name: 'Shop' }, actor)
    t.match(changed, { name: 'Shop', createdAt: '2030-01-01T00:00:00.000Z', updatedAt: '2030-01-01T00:00:01.000Z' })
  })

  t.test('shows the status of a deployment even if it is not recorded yet', async t => {
    const { id } = await projects.create({ name: 'kept', deployPath: at('kept') }, actor)
    kept.push({ projectId: id, status: 'success' }, { projectId: id, status: 'failed' })
    t.equal(projects.get(id).status, 'failed')
    t.match(
      projects.list().find(project => project.id === id),
      { status: 'failed' }
    )
    running.add(id)
    t.equal(projects.get(id).status, 'idle', 'while the next one runs, the database decides')
    running.delete(id)
    kept.length = 0
    t.equal(projects.get(id).status, 'idle')
    await projects.remove(id, actor)
    removed.length = 0
  })

  t.test('compares paths by segments, whatever their spelling', async t => {
    const taken = { kind: 'conflict', code: 'path_taken' }
    for (const path of [
      at('shop'),
      `${at('shop')}/`,
      at('shop/../shop'),
      at('shop/a'),
      at('shop/a/b'),
      join(directory, 'sites')
    ]) {
      await t.rejects(projects.create({ name: 'x', deployPath: path }, actor), taken, path)
    }
    for (const path of [at('shop-2'), at('sho')]) await projects.create({ name: 'x', deployPath: path }, actor)
  })

  t.test('refuses a link to the target of another project', async t => {
    mkdirSync(at('shop'), { recursive: true })
    symlinkSync(at('shop'), at('link'))
    symlinkSync(at('shop'), at('other-link'))
    const taken = { kind: 'conflict', code: 'path_taken' }
    await t.rejects(projects.create({ name: 'x', deployPath: at('link') }, actor), taken)
    await t.rejects(projects.create({ name: 'x', deployPath: at('link/below') }, actor), taken)
  })

  t.test('refuses to move or delete a project during a deployment', async t => {
    const { id } = await projects.create({ name: 'busy', deployPath: at('busy') }, actor)
    running.add(id)
    await t.rejects(projects.remove(id, actor), { kind: 'conflict', code: 'deployment_running' })
    await t.rejects(projects.update(id, { deployPath: at('moved') }, actor), {
      kind: 'conflict',
      code: 'deployment_running'
    })
    t.equal((await projects.update(id, { deployPath: at('busy'), name: 'still' }, actor)).name, 'still')
    running.delete(id)
    await projects.remove(id, actor)
    t.throws(() => projects.get(id), { kind: 'not_found', code: 'not_found' })
    t.same(removed, [[]])
  })

  t.test('deletes a project with a long history completely or not at all', async t => {
    const { id } = await projects.create({ name: 'long', deployPath: at('long') }, actor)
    await insertDeployments(store, { count: 2500, projectId: id, projectName: 'long' })
    const newestFirst = (): string[] => listDeployments(store, { projectId: id, limit: 9999 }).map(row => row.id)
    const [before, from] = [newestFirst(), removed.length]
    const project = projects.get(id)

    running.add(id)
    await t.rejects(projects.remove(id, actor), { kind: 'conflict', code: 'deployment_running' })
    running.delete(id)
    const failing = createProjects({
      ...stage,
      home,
      audit: {
        within: () => {
          throw new Error('interrupted')
        }
      },
      deployments: {
        hasRunning: () => false,
        kept: () => [],
        removeWith: async (_, work) => void removed.push(await work()),
        removeTree: async id => void removedTrees.push(id)
      }
    })
    await t.rejects(failing.remove(id, actor), { message: 'interrupted' })
    t.same(newestFirst(), before)
    t.same(projects.get(id), project)
    t.equal(removed.length, from, 'no file was removed')
    t.notOk(removedTrees.includes(id), 'nor its tree')

    const written = transactionsIn(directory)
    await projects.remove(id, actor)
    t.equal(transactionsIn(directory) - written, 1, 'one transaction, so a crash cannot split it')
    t.same(newestFirst(), [])
    t.same(
      removed.slice(from).map(ids => ids.sort()),
      [before.sort()]
    )
    t.throws(() => projects.get(id), { code: 'not_found' })
    t.equal(listAudit(store, { action: 'project.delete', projectId: id, limit: 9 }).length, 1)
  })

  t.test('a refused change changes nothing and writes no audit entry', async t => {
    const before = listAudit(store, { limit: 500 }).length
    const [project] = projects.list()
    const id = project?.id as string
    await t.rejects(projects.update(id, { name: 'new', tagIds: ['tag_x'] }, actor), {
      code: 'invalid_field',
      field: 'tagIds'
    })
    t.equal(projects.get(id).name, project?.name)
    t.equal(listAudit(store, { limit: 500 }).length, before)
  })

  t.test('of two simultaneous requests for a path, one succeeds', async t => {
    const taking = Array.from({ length: 5 }, () => projects.create({ name: 'race', deployPath: at('race') }, actor))
    const outcomes = await Promise.allSettled(taking)
    t.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1)
  })
})
