import t from 'tap'
import { number, text } from '../../../lib/store/tables/columns.js'
import { tableOf } from '../../../lib/store/tables/table.js'
import { aStore } from '../stage.js'

const at = '2026-01-02T03:04:05.678Z'
const columns = { id: text, name: text, color: text, sortOrder: number, createdAt: text, updatedAt: text }
const tags = tableOf('tags', columns)
const tag = { id: 'tag_a', name: 'Web', color: 'blue', sortOrder: 0, createdAt: at, updatedAt: at }

t.test('finds a record as it was inserted, changes it in part, and removes it', async t => {
  const store = await aStore(t)
  await store.write(tx => tags.insert(tx, tag))
  t.strictSame(tags.find(store, 'tag_a'), tag)
  t.equal(await store.write(tx => tags.update(tx, 'tag_a', { name: 'Shop' })), true)
  t.strictSame(tags.find(store, 'tag_a'), { ...tag, name: 'Shop' })
  t.equal(await store.write(tx => tags.delete(tx, 'tag_a')), true)
  t.equal(tags.find(store, 'tag_a'), undefined)
})

t.test('returns false when a record to update or remove does not exist', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    t.equal(tags.update(tx, 'none', { name: 'Shop' }), false)
    t.equal(tags.update(tx, 'none', {}), false)
    t.equal(tags.delete(tx, 'none'), false)
    tags.insert(tx, tag)
    t.equal(tags.update(tx, 'tag_a', {}), true)
  })
})

t.test('changes neither the id nor a column that triggers maintain', async t => {
  const store = await aStore(t)
  const kept = tableOf('tags', columns, ['sortOrder'])
  await store.write(tx => {
    tags.insert(tx, tag)
    kept.update(tx, 'tag_a', { id: 'tag_b', sortOrder: 7, color: 'green' })
  })
  t.strictSame(tags.find(store, 'tag_a'), { ...tag, color: 'green' })
})
