import t from 'tap'
import { checkRead, checkValues, checkWrite } from '../../lib/store/statements.js'

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
