import t from 'tap'
import { rowWindow, scrollToRow } from '../../../../www/elements/base/row-window.js'

t.test('returns the visible rows and some spare rows', async t => {
  const cases: Array<[what: string, given: Partial<Parameters<typeof rowWindow>[0]>, first: number, end: number]> = [
    ['at the top', { topPx: 100 }, 0, 12],
    ['scrolled past', { topPx: -5000 }, 98, 114],
    ['at the end', { topPx: -49_500 }, 988, 1000],
    ['beyond the end', { topPx: -90_000 }, 999, 1000],
    ['still below', { topPx: 9000 }, 0, 1],
    ['a short list', { count: 3, topPx: 100 }, 0, 3],
    ['an empty list', { count: 0, topPx: 100 }, 0, 0],
    ['not laid out yet', { rowPx: 0, topPx: 0 }, 0, 1]
  ]
  for (const [what, given, first, end] of cases) {
    const geometry = { count: 1000, rowPx: 50, topPx: 0, seenPx: 600, spareRows: 2, ...given }
    t.same(rowWindow(geometry), { first, end }, what)
  }
})

t.test('scrolls only as far as needed to show a row', async t => {
  const cover = { above: 60, below: 80 }
  const geometry = { rowPx: 50, topPx: -1000, seenPx: 600 }
  t.equal(scrollToRow(geometry, 25, cover), 0, 'already visible')
  t.equal(scrollToRow(geometry, 20, cover), -60, 'covered at the top')
  t.equal(scrollToRow(geometry, 31, cover), 80, 'covered at the bottom')
  t.equal(scrollToRow(geometry, 0, cover), -1060)
})
