import t from 'tap'
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { systemActor as actor, systemActor } from '../../lib/model/audit.js'
import { applyToProjects, createLabels, Projects, recentScripts } from '../../lib/projects/projects.js'
import { readRedo } from '../../lib/core/store/redo.js'
import { listAudit } from '../../lib/core/store/tables/audit.js'
import { listDeployments } from '../../lib/core/store/tables/deployments.js'
import { insertDeployments } from '../support/many-deployments.js'
import { openStage } from '../support/store.js'
import { notFound } from '../../lib/base/errors.js'
import { labelColors, type Project, type ProjectFields } from '../../lib/model/project.js'
import type { DeploymentRow, RanScript } from '../../lib/model/deployment.js'

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
  const projects = new Projects({
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
    for (const name of ['shop-2', 'sho']) await projects.create({ name, deployPath: at(name) }, actor)
  })

  t.test('a name belongs to one project, except for those that have the same since before', async t => {
    const taken = { kind: 'conflict', code: 'name_taken', field: 'name' }
    const { id } = await projects.create({ name: 'Wiki', deployPath: at('wiki') }, actor)
    await t.rejects(projects.create({ name: 'wiki', deployPath: at('wiki-2') }, actor), {
      ...taken,
      other: { kind: 'project', id, name: 'Wiki' }
    })
    t.equal((await projects.update(id, { name: 'wiki' }, actor)).name, 'wiki', 'its own name')
    const before = await projects.adopt('proj_same', { name: 'Wiki', deployPath: at('wiki-3') }, actor)
    t.equal((await projects.update(before.id, { name: 'WIKI', env: 'b' }, actor)).name, 'WIKI')
    const docs = await projects.create({ name: 'docs', deployPath: at('docs') }, actor)
    await t.rejects(projects.update(docs.id, { name: 'WIKI' }, actor), taken)
    await projects.adopt(before.id, { name: 'docs', deployPath: at('wiki-3') }, actor)
    for (const each of [id, before.id, docs.id]) await projects.remove(each, actor)
    removed.length = 0
  })

  t.test('refuses a link to the target of another project', async t => {
    mkdirSync(at('shop'), { recursive: true })
    symlinkSync(at('shop'), at('link'))
    symlinkSync(at('shop'), at('other-link'))
    const taken = { kind: 'conflict', code: 'path_taken' }
    await t.rejects(projects.create({ name: 'x', deployPath: at('link') }, actor), taken)
    await t.rejects(projects.create({ name: 'x', deployPath: at('link/below') }, actor), taken)
  })

  t.test('refuses to delete a project from which another one takes its releases', async t => {
    const { id } = await projects.create({ name: 'from', deployPath: at('from') }, actor)
    const policy = { promoteFrom: { projectId: id, soakMinutes: 0 } }
    const { id: to } = await projects.create({ name: 'to', deployPath: at('to'), policy }, actor)
    const message = 'Cannot delete the project "from": "to" takes releases of it only'
    await t.rejects(projects.remove(id, actor), { code: 'promotion_source', message, other: { id: to, name: 'to' } })
    await projects.remove(to, actor)
    await projects.remove(id, actor)
    removed.length = 0
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
    const failing = new Projects({
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

/** Creates projects that record the actions on them. "gone" does not exist. */
function recorder() {
  const done: unknown[] = []
  const get = (id: string): Project => {
    if (id === 'gone') throw notFound('Project', id)
    return { id, tagIds: ['tag_a'] } as Project
  }
  return {
    done,
    projects: {
      get,
      async update(id: string, fields: ProjectFields) {
        done.push([id, fields])
        return get(id)
      },
      async remove(id: string) {
        get(id)
        done.push(id)
      }
    }
  }
}

t.test('applies the action to each project', async t => {
  const cases: Array<[Parameters<typeof applyToProjects>[1]['action'], unknown]> = [
    [{ action: 'delete', categoryId: null }, 'one'],
    [{ action: 'setCategory', categoryId: 'cat_a' }, ['one', { categoryId: 'cat_a' }]],
    [{ action: 'setCategory', categoryId: null }, ['one', { categoryId: null }]],
    [
      { action: 'setClientScripts', categoryId: null, allowClientScripts: false },
      ['one', { allowClientScripts: false }]
    ],
    [{ action: 'addTags', categoryId: null, tagIds: ['tag_b'] }, ['one', { tagIds: ['tag_a', 'tag_b'] }]],
    [{ action: 'removeTags', categoryId: null, tagIds: ['tag_a'] }, ['one', { tagIds: [] }]]
  ]
  for (const [action, expected] of cases) {
    const { projects, done } = recorder()
    const outcome = await applyToProjects(projects, { action, ids: ['one', 'one'], actor: systemActor })
    t.same(outcome, { done: 1, failed: [] })
    t.same(done, [expected])
  }
})

t.test('a refusal does not stop the other projects', async t => {
  const { projects, done } = recorder()
  const action = { action: 'delete', categoryId: null } as const
  const outcome = await applyToProjects(projects, { action, ids: ['one', 'gone', 'two'], actor: systemActor })
  t.equal(outcome.done, 2)
  t.match(outcome.failed, [{ id: 'gone', error: /not found/ }])
  t.same(done, ['one', 'two'])
})

t.test('requires tags for changes of tags', async t => {
  const action = { action: 'addTags', categoryId: null } as const
  await t.rejects(applyToProjects(recorder().projects, { action, ids: ['one'], actor: systemActor }), {
    code: 'invalid_field',
    field: 'tagIds'
  })
})

t.test('labels', async t => {
  const stage = await openStage(t)
  const tags = createLabels('tag', stage)
  const categories = createLabels('category', stage)

  t.test('chooses the first unused colour, or the first if all are used', async t => {
    const colors = []
    for (let i = 0; i < 8; i++) colors.push((await tags.create({ name: `tag ${i}` }, actor)).color)
    t.same(colors, [...labelColors, 'blue'])
  })

  t.test('a category and a tag may share a name', async t => {
    t.match(await categories.create({ name: 'TAG 1' }, actor), { name: 'TAG 1', color: 'blue' })
    await t.rejects(tags.create({ name: 'TAG 1' }, actor), { kind: 'conflict', code: 'name_taken' })
  })

  t.test('an update keeps omitted fields and sets the time', async t => {
    const { id } = await tags.create({ name: 'time', color: 'pink', sortOrder: 4 }, actor)
    stage.clock.advance(5000)
    t.match(await tags.update(id, { name: 'Time' }, actor), {
      name: 'Time',
      color: 'pink',
      sortOrder: 4,
      createdAt: '2030-01-01T00:00:00.000Z',
      updatedAt: '2030-01-01T00:00:05.000Z'
    })
  })

  t.test('refuses unknown labels', async t => {
    await t.rejects(tags.update('tag_x', { name: 'x' }, actor), { kind: 'not_found', code: 'not_found' })
    await t.rejects(categories.remove('cat_x', actor), { kind: 'not_found', code: 'not_found' })
  })
})

const ran = (step: RanScript['step'], script: string): RanScript => ({ step, script, source: 'client', async: false })
const row = (id: string, scripts: RanScript[]) => ({ id, scripts }) as DeploymentRow

t.test('returns the scripts of the newest deployment that ran any', async t => {
  const rows = [
    row('dep_3', []),
    row('dep_2', [ran('postDeploy', 'make restart')]),
    row('dep_1', [ran('preDeploy', 'old')])
  ]
  t.same(recentScripts(rows), { deployId: 'dep_2', preDeployScript: '', postDeployScript: 'make restart' })
  t.same(recentScripts([row('dep_1', [])]), { deployId: null, preDeployScript: '', postDeployScript: '' })
  t.same(recentScripts([]), { deployId: null, preDeployScript: '', postDeployScript: '' })
})
