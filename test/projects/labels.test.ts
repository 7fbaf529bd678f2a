import t from 'tap'
import { systemActor as actor } from '../../lib/model/audit.js'
import { labelColors } from '../../lib/model/label.js'
import { createLabels } from '../../lib/projects/labels.js'
import { openStage } from '../support/store.js'

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
