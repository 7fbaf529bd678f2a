import t from 'tap'
import { type Change, detailLine, readChanges, writeChanges } from '../../../lib/base/shared/audit-changes.js'

t.test('an entry lists at most a hundred changes, and says how many more there are', t => {
  const many: Change[] = Array.from({ length: 120 }, (_, index) => ({ field: `f${index}`, from: '1', to: '2' }))
  const { changes } = readChanges(writeChanges('shop', many))
  t.equal(changes.length, 101)
  t.same(changes.at(-1), { field: 'more', from: null, to: '20' })
  t.end()
})

t.test('a detail of an earlier version is all name', t => {
  for (const detail of ['name, description', 'until 2030: a → b', 'x\nnot a change', ''])
    t.same(readChanges(detail), { subject: detail, changes: [] })
  t.equal(detailLine('shop\na: 1 → 2\nb: 3'), 'shop; a: 1 → 2; b: 3')
  t.equal(detailLine('\na: 1 → 2'), 'a: 1 → 2')
  t.end()
})
