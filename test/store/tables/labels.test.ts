import t from 'tap'
import type { LabelKind } from '../../../lib/model/label.js'
import {
  deleteLabel,
  findLabel,
  findLabelByName,
  insertLabel,
  listLabels,
  updateLabel
} from '../../../lib/store/tables/labels.js'
import { findProject, insertProject } from '../../../lib/store/tables/projects.js'
import { aLabel, aProject, aStore } from '../stage.js'

for (const kind of ['category', 'tag'] satisfies LabelKind[]) {
  t.test(`reads a ${kind} as it was written, by id and by name regardless of case`, async t => {
    const store = await aStore(t)
    const label = aLabel({ name: 'Web Site', color: 'pink', sortOrder: -3 })
    await store.write(tx => insertLabel(tx, kind, label))
    t.strictSame(findLabel(store, kind, 'tag_a'), label)
    t.strictSame(findLabelByName(store, kind, 'WEB site'), label)
    t.equal(findLabelByName(store, kind, 'web'), undefined)
    t.equal(findLabel(store, kind === 'tag' ? 'category' : 'tag', 'tag_a'), undefined)
  })

  t.test(`refuses a second ${kind} of the same name, regardless of case`, async t => {
    const store = await aStore(t)
    await store.write(tx => insertLabel(tx, kind, aLabel()))
    await t.rejects(
      store.write(tx => insertLabel(tx, kind, aLabel({ id: 'tag_b', name: 'WEB' }))),
      /UNIQUE/
    )
  })

  t.test(`lists ${kind} labels by sortOrder, then by name, and counts their projects`, async t => {
    const store = await aStore(t)
    await store.write(tx => {
      insertLabel(tx, kind, aLabel({ id: 'b', name: 'b' }))
      insertLabel(tx, kind, aLabel({ id: 'A', name: 'A' }))
      insertLabel(tx, kind, aLabel({ id: 'first', name: 'z', sortOrder: -1 }))
      const carries = kind === 'tag' ? { tagIds: ['A'] } : { categoryId: 'A' }
      for (const id of ['proj_a', 'proj_b']) insertProject(tx, aProject({ id, ...carries }))
    })
    t.same(
      listLabels(store, kind).map(({ id, projectCount }) => [id, projectCount]),
      [
        ['first', 0],
        ['A', 2],
        ['b', 0]
      ]
    )
    const inScope = (scope: string[]) =>
      listLabels(store, kind, scope).map(({ id, projectCount }) => [id, projectCount])
    t.same(inScope(['proj_b', 'proj_x']), [['A', 1]], 'in a scope: without the names of other labels')
    t.same(inScope([]), [])
  })

  t.test(`changes the present fields of a ${kind}, and removes it from its projects`, async t => {
    const store = await aStore(t)
    await store.write(tx => {
      insertLabel(tx, kind, aLabel())
      insertProject(tx, aProject(kind === 'tag' ? { tagIds: ['tag_a'] } : { categoryId: 'tag_a' }))
      t.equal(updateLabel(tx, kind, { id: 'tag_a', color: 'gray' }), true)
      t.equal(updateLabel(tx, kind, { id: 'none', color: 'gray' }), false)
    })
    t.match(findLabel(store, kind, 'tag_a'), { name: 'Web', color: 'gray', projectCount: 1 })
    await store.write(tx => {
      t.equal(deleteLabel(tx, kind, 'tag_a'), 1)
      t.equal(deleteLabel(tx, kind, 'tag_a'), 0)
    })
    t.match(findProject(store, 'proj_a'), { categoryId: null, tagIds: [] })
    t.same(listLabels(store, kind), [])
  })
}
