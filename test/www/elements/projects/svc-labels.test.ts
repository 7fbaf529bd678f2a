import '../../../support/without-dom.js'
import t from 'tap'
import type { Label } from '../../../../lib/model/project.js'
import { moved, orderChanges } from '../../../../www/elements/projects/svc-labels.js'

const label = (id: string, sortOrder: number): Label => ({
  id,
  name: id,
  color: 'blue',
  sortOrder,
  projectCount: 0,
  createdAt: '',
  updatedAt: ''
})

t.test('moves one label and keeps the order of the others', async t => {
  t.equal(moved([...'abcd'], 0, 2).join(''), 'bcad')
  t.equal(moved([...'abcd'], 3, 0).join(''), 'dabc')
  t.equal(moved([...'abcd'], 1, 9).join(''), 'acdb', 'not beyond the end')
  t.equal(moved([...'abcd'], 1, -3).join(''), 'bacd')
  t.equal(moved([...'abcd'], 7, 0).join(''), 'abcd', 'a missing index')
})

t.test('changes only labels whose number is wrong', async t => {
  t.same(orderChanges([label('b', 2), label('a', 1), label('c', 3)]), [
    { id: 'b', sortOrder: 1 },
    { id: 'a', sortOrder: 2 }
  ])
  t.same(orderChanges([label('a', 0), label('b', 0)]), [
    { id: 'a', sortOrder: 1 },
    { id: 'b', sortOrder: 2 }
  ])
  t.same(orderChanges([label('a', 1)]), [])
})
