import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { contentsOf } from '../../../lib/logs/read/contents.js'
import { createDeny } from '../../../lib/logs/read/deny.js'
import { createInflatedFiles } from '../../../lib/logs/read/inflated.js'
import { createOpenLog } from '../../../lib/logs/read/open.js'

const openLog = createOpenLog({ deny: createDeny([]), secrets: [] })

function stage(t: Test, bytes: Buffer) {
  const directory = t.testdir({})
  const path = join(directory, 'app.log')
  writeFileSync(path, bytes)
  const inflated = createInflatedFiles({ tmp: directory })
  t.teardown(() => inflated.close())
  return { path, inflated }
}

const signal = new AbortController().signal
const text = 'a line of a log\n'.repeat(1000)

for (const [what, bytes, isCompressed] of [
  ['a plain file', Buffer.from(text), false],
  ['a compressed file, whatever its name', gzipSync(text), true]
] as const) {
  t.test(`reads ${what} by the bytes of its contents`, async t => {
    const { path, inflated } = stage(t, bytes)
    const contents = await contentsOf(await openLog(path), inflated, signal)
    t.match(contents, { size: text.length, isCompressed })
    const { buffer } = await contents.handle.read(Buffer.alloc(text.length), 0, text.length, 0)
    t.equal(buffer.toString(), text)
    await contents.release()
  })
}

t.test('refuses a broken compressed file, and stops waiting at an abort', async t => {
  const broken = stage(t, gzipSync(text).subarray(0, 60))
  await t.rejects(contentsOf(await openLog(broken.path), broken.inflated, signal), { code: 'broken_gzip' })
  const { path, inflated } = stage(t, gzipSync(text))
  const aborted = AbortSignal.abort(new Error('gone'))
  await t.rejects(contentsOf(await openLog(path), inflated, aborted), { message: 'gone' })
})
