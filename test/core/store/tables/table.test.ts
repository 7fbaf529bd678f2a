import t from 'tap'
import { findDeployment, insertDeployment } from '../../../../lib/core/store/tables/deployments.js'
import { findProject, insertProject } from '../../../../lib/core/store/tables/projects.js'
import {
  choice,
  type Column,
  equalities,
  flag,
  json,
  nullable,
  number,
  rowReader,
  tableOf,
  text,
  texts,
  valueReader,
  where
} from '../../../../lib/core/store/tables/table.js'
import { aDeployment, aProject, aStore } from '../stage.js'

const at = '2026-01-02T03:04:05.678Z'
const columns = { id: text, name: text, color: text, sortOrder: number, createdAt: text, updatedAt: text }
const tags = tableOf('tags', columns)
const tag = { id: 'tag_a', name: 'Web', color: 'blue', sortOrder: 0, createdAt: at, updatedAt: at }

t.test('finds a record as it was inserted, changes it in part, and removes it', async t => {
  const store = await aStore(t)
  await store.write(tx => tags.insert(tx, tag))
  t.strictSame(tags.find(store, 'tag_a'), tag)
  t.equal(await store.write(tx => tags.update(tx, 'tag_a', { name: 'Shop' })), true)
  t.strictSame(tags.find(store, 'tag_a'), { ...tag, name: 'Shop' })
  t.equal(await store.write(tx => tags.delete(tx, 'tag_a')), true)
  t.equal(tags.find(store, 'tag_a'), undefined)
})

t.test('returns false when a record to update or remove does not exist', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    t.equal(tags.update(tx, 'none', { name: 'Shop' }), false)
    t.equal(tags.update(tx, 'none', {}), false)
    t.equal(tags.delete(tx, 'none'), false)
    tags.insert(tx, tag)
    t.equal(tags.update(tx, 'tag_a', {}), true)
  })
})

t.test('changes neither the id nor a column that triggers maintain', async t => {
  const store = await aStore(t)
  const kept = tableOf('tags', columns, ['sortOrder'])
  await store.write(tx => {
    tags.insert(tx, tag)
    kept.update(tx, 'tag_a', { id: 'tag_b', sortOrder: 7, color: 'green' })
  })
  t.strictSame(tags.find(store, 'tag_a'), { ...tag, color: 'green' })
})

t.test('stores booleans as 0, 1 and NULL, and lists as JSON text', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertProject(tx, aProject({ postDeployAsync: true, allowClientScripts: null }))
    insertProject(tx, aProject({ id: 'proj_b', postDeployAsync: false, allowClientScripts: false }))
    insertDeployment(tx, aDeployment({ steps: [], hasArtifact: false }))
  })
  t.strictSame(store.all('SELECT postDeployAsync, allowClientScripts FROM projects ORDER BY id'), [
    { postDeployAsync: 1, allowClientScripts: null },
    { postDeployAsync: 0, allowClientScripts: 0 }
  ])
  t.strictSame(store.get('SELECT steps, hasArtifact FROM deployments'), { steps: '[]', hasArtifact: 0 })
  t.match(findProject(store, 'proj_a'), { postDeployAsync: true, allowClientScripts: null })
  t.match(findProject(store, 'proj_b'), { postDeployAsync: false, allowClientScripts: false })
  t.match(findDeployment(store, 'dep_a'), { hasArtifact: false })
})

t.test('reads back what each column writes', async t => {
  const check = <T>(column: Column<T>, fields: T[]): void => {
    for (const field of fields) t.strictSame(column.read(column.write(field)), field)
  }
  check(text, ['', 'a'])
  check(number, [0, 1.5])
  check(flag, [true, false])
  check(choice(['a', 'b']), ['a', 'b'])
  check(nullable(flag), [true, null])
  check(texts, [[], ['a', 'b']])
})

t.test('throws an error for a wrong value that names table and column but not the value', async t => {
  const isNull = (value: unknown): value is null => value === null
  const cases: Array<[column: Column<unknown>, value: string | number | null | Uint8Array, message: string]> = [
    [text, 7, '"t.a" is a wrong number but must be text'],
    [text, null, '"t.a" is null but must be text'],
    [number, '7', '"t.a" is a wrong text but must be a number'],
    [number, new Uint8Array(1), '"t.a" is a wrong blob but must be a number'],
    [flag, 2, '"t.a" is a wrong number but must be 0 or 1'],
    [nullable(flag), 'x', '"t.a" is a wrong text but must be 0 or 1, or null'],
    [choice(['x', 'y']), 'z', '"t.a" is a wrong text but must be one of x, y'],
    [texts, '{}', '"t.a" is a wrong text but must be JSON of a list of texts'],
    [texts, '[1]', '"t.a" is a wrong text but must be JSON of a list of texts'],
    [json('nothing', isNull), '{', '"t.a" is a wrong text but must be JSON of nothing']
  ]
  for (const [column, value, message] of cases) {
    t.throws(() => rowReader('t', { a: column })({ a: value }), new Error(`Cannot read the database: ${message}`))
    t.throws(() => valueReader('t.a', column)({ any: value }), new Error(`Cannot read the database: ${message}`))
  }
  t.throws(() => rowReader('t', { a: text })({}), /"t\.a" is missing but must be text/)
})

t.test('ignores columns without a reader and fields that are not requested', async t => {
  const columns = { a: text, b: number }
  t.strictSame(rowReader('t', columns)({ position: 3, b: 1, a: 'x' }), { a: 'x', b: 1 })
  t.strictSame(rowReader<{ a: string }>('t', columns, ['a'])({ a: 'x' }), { a: 'x' })
})

t.test('refuses a record with a wrong value and reads the others', async t => {
  const store = await aStore(t)
  await store.write(tx => {
    insertProject(tx, aProject())
    insertProject(tx, aProject({ id: 'proj_b' }))
    tx.run('UPDATE projects SET allowedEnv = ? WHERE id = ?', 'PATH', 'proj_b')
  })
  t.equal(findProject(store, 'proj_a')?.id, 'proj_a')
  t.throws(() => findProject(store, 'proj_b'), /"projects\.allowedEnv" is a wrong text/)
})

t.test('makes a condition of each expression that has a value; undefined means any', async t => {
  t.strictSame(equalities({ a: 'x', b: undefined, 'lower(c)': 'y' }), {
    conditions: ['a = ?', 'lower(c) = ?'],
    values: ['x', 'y']
  })
})

t.test('joins all conditions in a clause, which is empty without any', async t => {
  t.equal(where([]), '')
  t.equal(where(['a = ?', 'b < ?']), 'WHERE a = ? AND b < ?')
})
