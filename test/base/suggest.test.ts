import t from 'tap'
import { closest } from '../../lib/base/suggest.js'

const known = ['serve', 'push', 'status', 'config', 'config:set', 'config:list', 'rollback', 'admin reset-password']
const cases: Array<[word: string, meant: string | undefined]> = [
  ['pusj', 'push'],
  ['psuh', 'push'],
  ['PUSH', 'push'],
  ['statuss', 'status'],
  ['stauts', 'status'],
  ['config:st', 'config:set'],
  ['config-set', 'config:set'],
  ['rollbak', 'rollback'],
  ['roll', 'rollback'],
  ['admin reset-pasword', 'admin reset-password'],
  ['deploy', undefined],
  ['x', undefined],
  ['', undefined]
]

for (const [word, meant] of cases) {
  t.test(`closest: "${word}" was ${meant === undefined ? 'nothing known' : `"${meant}"`}`, async t =>
    t.equal(closest(word, known), meant)
  )
}
