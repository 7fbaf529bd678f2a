import t from 'tap'
import { Refusal, invalid, notFound } from '../../lib/base/refusal.js'

t.test('a refusal has its kind, its code, its sentence and its details', async t => {
  const cause = new Error('EACCES')
  const refusal = new Refusal('too_many', 'too_many_searches', 'Cannot search', { retryAfterSeconds: 5, cause })
  t.ok(refusal instanceof Error)
  t.match(refusal, { name: 'Refusal', kind: 'too_many', code: 'too_many_searches', message: 'Cannot search' })
  t.equal(refusal.retryAfterSeconds, 5)
  t.equal(refusal.cause, cause)
})

t.test('a refusal without a cause has no property of that name', async t => {
  t.notOk('cause' in new Refusal('conflict', 'in_use', 'Cannot start'))
})

t.test('names an invalid field, and the id of a missing record', async t => {
  t.match(invalid('items[3].filePath', 'must be absolute'), { kind: 'invalid', field: 'items[3].filePath' })
  t.match(notFound('Project', 'proj_a'), { kind: 'not_found', code: 'not_found', message: /"proj_a"/ })
})
