import t from 'tap'
import { matchRank } from '../../../../www/elements/base/match-rank.js'

t.test('matches a title by its beginning, a word, a part, or its letters in order', async t => {
  for (const [typed, title, rank] of [
    ['', 'Overview', 0],
    ['over', 'Overview', 4],
    ['import', 'Export and import', 3],
    ['view', 'Overview', 2],
    ['ovw', 'Overview', 1],
    ['xyz', 'Overview', null],
    ['概', '概览', 4]
  ] as const) {
    t.equal(matchRank(typed, title), rank, `“${typed}” in ${title}`)
  }
})
