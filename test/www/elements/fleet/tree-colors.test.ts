import t from 'tap'
import { createTreeColors, shortTree } from '../../../../www/elements/fleet/tree-colors.js'

t.test('each tree has a colour of its own, as long as there are colours', async t => {
  const colors = createTreeColors()
  const trees = Array.from({ length: 8 }, (_, index) => `tree${index}`)
  colors.assign(trees)
  const given = trees.map(tree => colors.of(tree))
  t.equal(new Set(given.slice(0, 6)).size, 6)
  t.same(given.slice(6), ['gray', 'gray'])
  t.equal(colors.of(null), 'gray')
  t.equal(colors.of('unknown'), 'gray')
})

t.test('a tree keeps its colour while it is shown, and gives it back afterwards', async t => {
  const colors = createTreeColors()
  colors.assign(['a', 'b'])
  const [a, b] = [colors.of('a'), colors.of('b')]
  colors.assign(['c', 'b', 'a'])
  t.same([colors.of('a'), colors.of('b')], [a, b])
  t.notOk([a, b].includes(colors.of('c')))
  colors.assign(['b', 'd'])
  t.equal(colors.of('b'), b)
  t.equal(colors.of('d'), a, 'the first free one')
})

t.test('a tree without a colour gets one as soon as one is free', async t => {
  const colors = createTreeColors()
  colors.assign(['a', 'b', 'c', 'd', 'e', 'f', 'g'])
  t.equal(colors.of('g'), 'gray')
  colors.assign(['b', 'c', 'd', 'e', 'f', 'g'])
  t.equal(colors.of('g'), 'blue')
})

t.test('the first eight digits name a tree', async t => {
  t.equal(shortTree('4f1a9c0d77c0be12'), '4f1a9c0d')
})
