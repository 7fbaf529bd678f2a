import t from 'tap'
import { createGaps, readRanges, writeRanges } from '../../lib/audit/ranges.js'

t.test('writes and reads lists of numbers', async t => {
  t.equal(writeRanges([]), '')
  t.equal(writeRanges([7]), '7')
  t.equal(writeRanges([1, 2, 3, 12, 15, 16]), '1-3,12,15-16')
  t.same(readRanges('1-3,12,15-16'), [
    [1, 3],
    [12, 12],
    [15, 16]
  ])
  t.same(readRanges('x,-1,3-,4'), [[4, 4]], 'without unreadable parts')
})

t.test('finds missing entries that no entry names', async t => {
  const cases: Array<[missing: Array<[number, number]>, announced: string[], first: number | null]> = [
    [[], [], null],
    [[[4, 4]], [], 4],
    [[[1, 10]], ['1-10'], null],
    [[[1, 10]], ['6-10', '1-5'], null],
    [[[1, 10]], ['1-4', '6-10'], 5],
    [[[1, 10]], ['1-4', '1-9'], 10],
    [
      [
        [1, 10],
        [12, 12],
        [15, 20]
      ],
      ['1-10', '12', '14-30'],
      null
    ],
    [
      [
        [1, 10],
        [12, 12],
        [15, 20]
      ],
      ['1-10', '14-30'],
      12
    ],
    [[[3, 4]], ['1-2', '5-9'], 3]
  ]
  for (const [missing, announced, first] of cases) {
    const gaps = createGaps()
    for (const [from, to] of missing) gaps.miss(from, to)
    announced.forEach(gaps.announce)
    t.equal(gaps.unannounced(), first, JSON.stringify([missing, announced]))
  }
})

t.test('counts missing entries', async t => {
  const gaps = createGaps()
  for (const seq of [1, 2, 3, 7]) gaps.miss(seq, seq)
  gaps.miss(257, 512)
  t.equal(gaps.count(), 260)
})
