import t from 'tap'
import { createTree } from '../../../../www/elements/base/tree-rows.js'

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
