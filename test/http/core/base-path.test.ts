import t from 'tap'
import { belowBase, normaliseBase } from '../../../lib/http/core/base-path.js'

t.test('normalises every spelling of a base path', async t => {
  for (const text of ['a', '/a', '/a/', 'a/', '//a']) t.equal(normaliseBase(text), '/a', text)
  for (const text of ['', '/', '//']) t.equal(normaliseBase(text), '', text)
  t.equal(normaliseBase('a/b-1/c.d/'), '/a/b-1/c.d')
  for (const text of ['a b', 'é', 'a?b', 'a#', '..', 'a/../b', '.', 'a%20b', 'a"b', '<a>']) {
    t.throws(() => normaliseBase(text), { code: 'invalid_base' }, text)
  }
})

t.test('finds the path below a base', async t => {
  const cases: Array<[base: string, path: string, below: string | undefined]> = [
    ['', '/x', '/x'],
    ['', '/', '/'],
    ['/a', '/a/x', '/x'],
    ['/a', '/a/', '/'],
    ['/a', '/a', ''],
    ['/a', '/ab', undefined],
    ['/a', '/', undefined],
    ['/a/b', '/a/b/c', '/c'],
    ['/a/b', '/a', undefined]
  ]
  for (const [base, path, below] of cases) t.equal(belowBase(base, path), below, `${path} below ${base}`)
})
