import t from 'tap'
import { notFound } from '../../lib/base/errors.js'
import { systemActor } from '../../lib/model/audit.js'
import type { Project, ProjectFields } from '../../lib/model/project.js'
import { applyToProjects } from '../../lib/projects/bulk.js'

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
