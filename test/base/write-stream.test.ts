import { pbkdf2 } from 'node:crypto'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { withWriteStream } from '../../lib/base/write-stream.js'

t.test('what was written is closed when it returns', async t => {
  const path = join(t.testdir(), 'file')
  const out = await withWriteStream(path, {}, async out => {
    await new Promise<void>(resolve => void out.end('written', resolve))
    return out
  })
  t.ok(out.closed)
  t.equal(readFileSync(path, 'utf8'), 'written')
})

t.test('a failure while the file is being opened leaves no file after its removal', async t => {
  const path = join(t.testdir(), 'file')
  // All threads of the pool are busy, so that the file cannot be opened before the work fails.
  const busy = Promise.all([1, 2, 3, 4].map(() => promisify(pbkdf2)('a', 'b', 150_000, 64, 'sha512')))
  await t.rejects(withWriteStream(path, {}, async () => { throw new Error('no') }), /^no$/)
  rmSync(path, { force: true })
  await busy
  await sleep(50)
  t.notOk(existsSync(path))
})

t.test('a file that cannot be opened is the error of the work, not of the process', async t => {
  const path = join(t.testdir(), 'missing/file')
  await t.rejects(withWriteStream(path, {}, out => new Promise((_, reject) => out.once('error', reject))), { code: 'ENOENT' })
})
