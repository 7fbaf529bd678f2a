import '../../../support/without-dom.js'
import t from 'tap'
import { createTree, rowWindow, scrollToRow } from '../../../../www/elements/base/svc-rows.js'

t.test('shows open directories and lists those to load', async t => {
  const tree = createTree('site')
  const shown = (): string[] =>
    tree.rows.map(
      ({ path, level, isOpen, hasChildren }) =>
        `${level}${isOpen ? '-' : '+'}${path}${hasChildren === false ? '.' : ''}`
    )
  t.same(shown(), ['1-'])
  t.same(tree.wanted, [''])
  tree.fill('', ['a', 'b'])
  t.same(shown(), ['1-', '2+a', '2+b'])
  t.same(tree.wanted, [])
  tree.setOpen('a', true)
  t.same(tree.wanted, ['a'])
  tree.fill('a', ['x y'])
  tree.fill('a/x y', [])
  t.same(shown(), ['1-', '2-a', '3+a/x y.', '2+b'])
  t.match(tree.rows[3], { name: 'b', place: 2, siblings: 2 })
  tree.setOpen('', false)
  t.same(shown(), ['1+'])
  tree.reveal('b/c/d')
  t.same(tree.wanted, ['b', 'b/c'])
  t.same(shown(), ['1-', '2-a', '3+a/x y.', '2-b'])
  tree.reveal('')
  tree.fill('', ['b'])
  t.same(shown(), ['1-', '2-b'], 'deleted directories are not shown')
})

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
