import t from 'tap'
import { matchRank } from '../../../www/elements/match-rank.js'

t.test('a title is named by its beginning, a word of it, a part, or its letters in order', async t => {
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
