import { pbkdf2 } from 'node:crypto'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { withWriteStream } from '../../lib/base/write-stream.js'

t.test('the file is written and closed when it returns', async t => {
  const path = join(t.testdir(), 'file')
  const out = await withWriteStream(path, {}, async out => {
    await new Promise<void>(resolve => void out.end('written', resolve))
    return out
  })
  t.ok(out.closed)
  t.equal(readFileSync(path, 'utf8'), 'written')
})

t.test('a file that is removed after a failed open does not reappear', async t => {
  const path = join(t.testdir(), 'file')
  // All threads of the pool are busy, so the file cannot be opened before the work fails.
  const busy = Promise.all([1, 2, 3, 4].map(() => promisify(pbkdf2)('a', 'b', 150_000, 64, 'sha512')))
  await t.rejects(
    withWriteStream(path, {}, async () => {
      throw new Error('no')
    }),
    /^no$/
  )
  rmSync(path, { force: true })
  await busy
  await sleep(50)
  t.notOk(existsSync(path))
})

t.test('a failed open rejects the work and does not crash the process', async t => {
  const path = join(t.testdir(), 'missing/file')
  await t.rejects(
    withWriteStream(path, {}, out => new Promise((_, reject) => out.once('error', reject))),
    { code: 'ENOENT' }
  )
})
