import { chmodSync, readFileSync, rmSync, statSync, writeFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createVariablesKey } from '../../lib/projects/variables-key.js'

t.test('creates the key once, readable only by its owner', async t => {
  const directory = t.testdir()
  const path = join(directory, 'variables.key')
  const file = createVariablesKey(path)
  t.match(await file.find(), { key: null, isMissing: true, why: /missing/ })
  const keys = await Promise.all([file.create(), file.create(), file.create()])
  t.ok(keys.every(key => key.equals(keys[0] as Buffer) && key.length === 32))
  t.match(readFileSync(path, 'utf8'), /^[0-9a-f]{64}\n$/)
  if (process.platform !== 'win32') t.equal(statSync(path).mode & 0o777, 0o600)
  t.strictSame(readdirSync(directory), ['variables.key'], 'no other file stays')
  t.strictSame(await file.create(), keys[0], 'an existing key is kept')
  const found = await createVariablesKey(path).find()
  t.strictSame(found.key, keys[0])
})

t.test('never replaces a file that is not a key', async t => {
  const path = join(t.testdir(), 'variables.key')
  for (const text of ['', 'x'.repeat(64), 'ab'.repeat(31), 'ab'.repeat(33)]) {
    writeFileSync(path, text)
    const file = createVariablesKey(path)
    t.match(await file.find(), { key: null, isMissing: false, why: /does not contain a key/ })
    await t.rejects(file.create(), { code: 'variables_key', kind: 'unavailable' })
    t.equal(readFileSync(path, 'utf8'), text)
  }
  rmSync(path)
  writeFileSync(path, 'AB'.repeat(32), { mode: 0o600 })
  t.ok((await createVariablesKey(path).find()).key, 'capital hexadecimal digits are accepted')
  chmodSync(path, 0o600)
})
