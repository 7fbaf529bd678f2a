import t from 'tap'
import { checkStill, idIn, idsOf, keyOf, named } from '../../../lib/cli/server-file/planning.js'
import type { ServerState } from '../../../lib/cli/server-file/state.js'

t.test('records are found by name, whatever its case', async t => {
  const record = (id: string, name: string) => ({ id, seen: '', fields: { name, filePath: '/x' } })
  const project = { ...record('p1', 'Shop'), sources: [record('s1', '')] }
  const state = { categories: [record('c1', 'web')], tags: [], projects: [project] } as unknown as ServerState
  const ids = idsOf(state)
  t.equal(idIn({ ids }, 'project', 'shop'), 'p1')
  t.equal(idIn({ ids }, 'category', 'WEB'), 'c1')
  t.equal(idIn({ ids }, 'tag', 'web'), 'web', 'the word itself')
  t.equal(ids.get(keyOf('source', 'shop', '/x')), 's1')
  t.equal(named(state.projects, 'SHOP'), project)
  t.equal(named(state.projects, 'other'), undefined)
  const two = [record('a', 'x'), record('b', 'X')]
  t.throws(() => named(two, 'x'), { code: 'name_taken', message: /a, b/ })
})

t.test('a record that is not as it was is refused', async t => {
  t.doesNotThrow(() => checkStill('It', { a: 1 }, { a: 1 }))
  t.throws(() => checkStill('It', { a: 1 }, undefined), { kind: 'precondition', code: 'changed_since' })
})
