import t from 'tap'
import {
  checkRead,
  checkValues,
  checkWrite,
  createMemory,
  type Memory,
  loadSqlite
} from '../../../lib/core/store/memory.js'
import { faultOfPages, type Image } from '../../../lib/core/store/page-file.js'
import { createRandom } from '../../support/random.js'

async function aMemory(t: { teardown(close: () => void): void }): Promise<Memory> {
  const memory = createMemory(await loadSqlite(), null)
  t.teardown(() => memory.close())
  memory.script('CREATE TABLE t (id INTEGER PRIMARY KEY, a, b REFERENCES t (id))')
  return memory
}

t.test('returns rows as objects by column name, with the bound values', async t => {
  const memory = await aMemory(t)
  const values = [null, 1, 1.5, 2 ** 40, -1, 'text\0é漢🙂', '', new Uint8Array([0, 255])]
  for (const value of values) memory.run('INSERT INTO t (a) VALUES (?)', [value])
  t.strictSame(
    memory.all('SELECT a FROM t ORDER BY id'),
    values.map(a => ({ a }))
  )
  t.strictSame(memory.get('SELECT id, a FROM t WHERE a = ?', 1.5), { id: 3, a: 1.5 })
  t.equal(memory.get('SELECT 1 FROM t WHERE id = ?', 99), undefined)
})

t.test('returns the number of changed rows', async t => {
  const memory = await aMemory(t)
  for (const a of [1, 1, 2]) memory.run('INSERT INTO t (a) VALUES (?)', [a])
  t.equal(memory.run('UPDATE t SET a = ? WHERE a = ?', [3, 1]), 2)
  t.equal(memory.run('UPDATE t SET a = ? WHERE a = ?', [3, 1]), 0)
  t.equal(memory.run('DELETE FROM t', []), 3)
})

t.test('leaves no changes if the work of a transaction throws', async t => {
  const memory = await aMemory(t)
  const failure = new Error('no')
  t.throws(
    () =>
      memory.transaction(() => {
        memory.run('INSERT INTO t (a) VALUES (?)', [1])
        throw failure
      }),
    failure
  )
  t.same(memory.all('SELECT * FROM t'), [])
  t.equal(
    memory.transaction(() => memory.run('INSERT INTO t (a) VALUES (?)', [1])),
    1,
    'the next one succeeds'
  )
})

t.test('can run a failed statement again', async t => {
  const memory = await aMemory(t)
  memory.run('INSERT INTO t (id) VALUES (?)', [1])
  t.throws(() => memory.run('INSERT INTO t (id) VALUES (?)', [1]), /UNIQUE/)
  t.equal(memory.run('INSERT INTO t (id) VALUES (?)', [2]), 1)
})

const lastStatement = ['INSERT INTO t (a) VALUES (?)', ['the last one']] as const

/** Returns the contents of a database opened from the image. */
async function contentOf(image: Image): Promise<unknown> {
  const copy = createMemory(await loadSqlite(), Buffer.concat(image.pieces))
  const found = [faultOfPages(copy), copy.all('SELECT * FROM t ORDER BY id')]
  copy.close()
  return found
}

t.test('takes an image that is a complete database, and continues with statements and foreign keys', async t => {
  const memory = await aMemory(t)
  memory.run('INSERT INTO t (a) VALUES (?)', ['before'])
  const image = memory.image(...lastStatement)
  t.equal(image.bytes, Buffer.concat(image.pieces).length)
  memory.run('INSERT INTO t (a) VALUES (?)', ['after'])
  t.equal(memory.all('SELECT a FROM t').length, 3)
  t.throws(() => memory.run('INSERT INTO t (b) VALUES (?)', [99]), /FOREIGN KEY/)
  t.same(await contentOf(image), [
    null,
    [
      { id: 1, a: 'before', b: null },
      { id: 2, a: 'the last one', b: null }
    ]
  ])
})

t.test('keeps an image unchanged while megabytes of rows are added, changed, removed and rolled back', async t => {
  const memory = await aMemory(t)
  const random = createRandom(7)
  const images: Array<{ image: Image; expected: unknown }> = []
  const someRows = (times: number): void => {
    for (let n = 0; n < times; n++) {
      const text = 'x'.repeat(random.below(20_000))
      const last = Number(memory.get('SELECT max(id) AS id FROM t')?.['id'] ?? 1)
      if (random.below(3) > 0) memory.run('INSERT INTO t (a) VALUES (?)', [text])
      else if (random.below(2) > 0) memory.run('UPDATE t SET a = ? WHERE id = ?', [text, 1 + random.below(last)])
      else memory.run('DELETE FROM t WHERE id = ?', [1 + random.below(last)])
    }
  }
  for (let round = 0; round < 12; round++) {
    memory.transaction(() => someRows(random.below(60)))
    const rows = () => memory.all('SELECT * FROM t ORDER BY id')
    const image = memory.image(...lastStatement)
    images.push({ image, expected: rows() })
    const before = rows()
    // Far more than SQLite's cache of pages (2 MB).
    t.throws(
      () =>
        memory.transaction(() => {
          someRows(600)
          throw new Error('rolled back')
        }),
      /rolled back/
    )
    t.strictSame(rows(), before)
    if (round % 3 === 2) {
      for (const { image, expected } of images.splice(0)) {
        t.strictSame(await contentOf(image), [null, expected])
        image.release()
      }
    }
  }
})

t.test('runs more statements than are cached', async t => {
  const memory = await aMemory(t)
  for (let round = 0; round < 2; round++) {
    for (let n = 0; n < 600; n++) t.match(memory.get(`SELECT ${n} AS n`), { n })
  }
})

t.test('throws for a file that is not a database', async t => {
  const sqlite = await loadSqlite()
  t.throws(() => createMemory(sqlite, Buffer.alloc(8192, 'no database')), /not a database/)
})

const reads = ['SELECT 1', '  select replace(name, ?, ?) from t', 'WITH a AS (SELECT 1) SELECT * FROM a', 'VALUES (1)']
const writes = [
  'INSERT INTO t (date, time, random) VALUES (?, ?, ?)',
  "UPDATE t SET note = 'random() and date()' WHERE id = ?",
  'DELETE FROM t WHERE id = ?',
  'REPLACE INTO t VALUES (?)',
  'WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a'
]
const computed = [
  "INSERT INTO t VALUES (datetime('now'))",
  'UPDATE t SET at = CURRENT_TIMESTAMP',
  'UPDATE t SET n = random()',
  'INSERT INTO t VALUES (randomblob(16))',
  'INSERT INTO t VALUES (last_insert_rowid())',
  'UPDATE t SET n = changes ()'
]

t.test('accepts only statements that read in checkRead', async t => {
  for (const sql of reads) t.doesNotThrow(() => checkRead(sql), sql)
  for (const sql of [
    ...writes,
    'CREATE TABLE t (a)',
    'PRAGMA user_version = 1',
    'INSERT INTO t VALUES (1) RETURNING a'
  ]) {
    t.throws(() => checkRead(sql), /Not a read-only statement/, sql)
  }
})

t.test('accepts only statements that change rows and can be replayed in checkWrite', async t => {
  for (const sql of writes) t.doesNotThrow(() => checkWrite(sql), sql)
  for (const sql of ['SELECT 1', 'DROP TABLE t', 'BEGIN', 'PRAGMA foreign_keys = OFF'])
    t.throws(() => checkWrite(sql), /changes rows/, sql)
  for (const sql of computed) t.throws(() => checkWrite(sql), /cannot be replayed/, sql)
})

t.test('accepts only values that are preserved exactly in checkValues', async t => {
  t.doesNotThrow(() => checkValues('sql', ['', 0, -1.5, null, new Uint8Array()]))
  for (const value of [undefined, NaN, Infinity, true, 1n, {}, new Date(0)]) {
    t.throws(() => checkValues('sql', ['a', value as never]), /Cannot bind value 2/, String(value))
  }
})

t.test('loads a separate SQLite each time', async t => {
  const [one, other] = [createMemory(await loadSqlite(), null), createMemory(await loadSqlite(), null)]
  t.teardown(() => [one, other].forEach(memory => memory.close()))
  one.script('CREATE TABLE t (a); INSERT INTO t VALUES (1)')
  t.same(one.all('SELECT a FROM t'), [{ a: 1 }])
  t.throws(() => other.all('SELECT a FROM t'), /no such table/)
})
