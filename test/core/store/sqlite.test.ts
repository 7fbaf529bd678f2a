import t from 'tap'
import { createMemory } from '../../../lib/core/store/memory.js'
import { loadSqlite } from '../../../lib/core/store/sqlite.js'

t.test('loads a separate SQLite each time', async t => {
  const [one, other] = [createMemory(await loadSqlite(), null), createMemory(await loadSqlite(), null)]
  t.teardown(() => [one, other].forEach(memory => memory.close()))
  one.script('CREATE TABLE t (a); INSERT INTO t VALUES (1)')
  t.same(one.all('SELECT a FROM t'), [{ a: 1 }])
  t.throws(() => other.all('SELECT a FROM t'), /no such table/)
})
