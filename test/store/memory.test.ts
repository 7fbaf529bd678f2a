import t from 'tap'
import { createMemory } from '../../lib/store/memory.js'
import type { Memory } from '../../lib/store/memory.js'
import type { Image } from '../../lib/store/page-file.js'
import { faultOfPages } from '../../lib/store/page-check.js'
import { loadSqlite } from '../../lib/store/sqlite.js'
import { createRandom } from '../support/random.js'

async function aMemory(t: { teardown(close: () => void): void }): Promise<Memory> {
  const memory = createMemory(await loadSqlite(), null)
  t.teardown(() => memory.close())
  memory.script('CREATE TABLE t (id INTEGER PRIMARY KEY, a, b REFERENCES t (id))')
  return memory
}

t.test('rows come as objects by column name, with the values that were bound', async t => {
  const memory = await aMemory(t)
  const values = [null, 1, 1.5, 2 ** 40, -1, 'text\0é漢🙂', '', new Uint8Array([0, 255])]
  for (const value of values) memory.run('INSERT INTO t (a) VALUES (?)', [value])
  t.strictSame(memory.all('SELECT a FROM t ORDER BY id'), values.map(a => ({ a })))
  t.strictSame(memory.get('SELECT id, a FROM t WHERE a = ?', 1.5), { id: 3, a: 1.5 })
  t.equal(memory.get('SELECT 1 FROM t WHERE id = ?', 99), undefined)
})

t.test('run gives the number of changed rows', async t => {
  const memory = await aMemory(t)
  for (const a of [1, 1, 2]) memory.run('INSERT INTO t (a) VALUES (?)', [a])
  t.equal(memory.run('UPDATE t SET a = ? WHERE a = ?', [3, 1]), 2)
  t.equal(memory.run('UPDATE t SET a = ? WHERE a = ?', [3, 1]), 0)
  t.equal(memory.run('DELETE FROM t', []), 3)
})

t.test('a transaction whose work throws leaves nothing', async t => {
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
    'the next one goes through'
  )
})

t.test('a statement that fails can be run again', async t => {
  const memory = await aMemory(t)
  memory.run('INSERT INTO t (id) VALUES (?)', [1])
  t.throws(() => memory.run('INSERT INTO t (id) VALUES (?)', [1]), /UNIQUE/)
  t.equal(memory.run('INSERT INTO t (id) VALUES (?)', [2]), 1)
})

const lastStatement = ['INSERT INTO t (a) VALUES (?)', ['the last one']] as const

/** What a database that is made of the image holds. */
async function contentOf(image: Image): Promise<unknown> {
  const copy = createMemory(await loadSqlite(), Buffer.concat(image.pieces))
  const found = [faultOfPages(copy), copy.all('SELECT * FROM t ORDER BY id')]
  copy.close()
  return found
}

t.test('an image is a whole database; statements and foreign keys work on after it was taken', async t => {
  const memory = await aMemory(t)
  memory.run('INSERT INTO t (a) VALUES (?)', ['before'])
  const image = memory.image(...lastStatement)
  t.equal(image.bytes, Buffer.concat(image.pieces).length)
  memory.run('INSERT INTO t (a) VALUES (?)', ['after'])
  t.equal(memory.all('SELECT a FROM t').length, 3)
  t.throws(() => memory.run('INSERT INTO t (b) VALUES (?)', [99]), /FOREIGN KEY/)
  t.same(await contentOf(image), [null, [{ id: 1, a: 'before', b: null }, { id: 2, a: 'the last one', b: null }]])
})

t.test('an image stays what it was while rows are added, changed, removed and rolled back by the megabyte', async t => {
  const memory = await aMemory(t)
  const random = createRandom(7)
  const images: Array<{ image: Image; expected: unknown }> = []
  const someRows = (times: number): void => {
    for (let n = 0; n < times; n++) {
      const text = 'x'.repeat(random.below(20_000))
      const last = memory.get<{ id: number | null }>('SELECT max(id) AS id FROM t')?.id ?? 1
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
    t.throws(() => memory.transaction(() => {
      someRows(600)
      throw new Error('rolled back')
    }), /rolled back/)
    t.strictSame(rows(), before)
    if (round % 3 === 2) {
      for (const { image, expected } of images.splice(0)) {
        t.strictSame(await contentOf(image), [null, expected])
        image.release()
      }
    }
  }
})

t.test('more texts than are kept prepared are still answered', async t => {
  const memory = await aMemory(t)
  for (let round = 0; round < 2; round++) {
    for (let n = 0; n < 600; n++) t.match(memory.get(`SELECT ${n} AS n`), { n })
  }
})

t.test('what is not a database throws', async t => {
  const sqlite = await loadSqlite()
  t.throws(() => createMemory(sqlite, Buffer.alloc(8192, 'no database')), /not a database/)
})
