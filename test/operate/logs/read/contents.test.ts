import t, { type Test } from 'tap'
import { renameSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import {
  contentsOf,
  createInflatedFiles,
  cutAfter,
  cutBefore,
  isBinary,
  lineText,
  linesOf
} from '../../../../lib/operate/logs/read/contents.js'
import { createOpenLog, createDeny } from '../../../../lib/operate/logs/read/open.js'
import { until } from '../../../support/until.js'

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

function stageOf(t: Test, maxBytes?: number) {
  const directory = t.testdir({})
  const inflated = createInflatedFiles({ tmp: directory, maxBytes })
  t.teardown(() => inflated.close())
  /** Writes a file of long ago: what was written just now is not kept. */
  const write = (name: string, text: string | Buffer, seconds = 1e9): void => {
    writeFileSync(join(directory, name), typeof text === 'string' ? gzipSync(text) : text)
    utimesSync(join(directory, name), seconds, seconds)
  }
  async function opened(name: string) {
    const log = await openLog(join(directory, name))
    t.teardown(() => log.handle.close())
    return log
  }
  async function acquire(name: string) {
    const found = await inflated.acquire(await opened(name))
    t.teardown(found.release)
    return found
  }
  return { directory, inflated, write, opened, acquire }
}

t.test('decompresses a file once for all users, and keeps it after they have left', async t => {
  const { acquire, write } = stageOf(t)
  write('a.gz', 'one\n')
  const [first, second] = [await acquire('a.gz'), await acquire('a.gz')]
  t.equal(first.handle, second.handle)
  t.strictSame(await first.reach(Infinity), { size: 4, isWhole: true })
  first.release()
  first.release()
  for (let n = 0; n < 5; n++) {
    write(`other-${n}.gz`, `${n}`)
    ;(await acquire(`other-${n}.gz`)).release()
  }
  t.not(second.handle.fd, -1, 'a second release has no effect: the file is still in use')
  second.release()
  const third = await acquire('a.gz')
  t.equal(third.handle, second.handle, 'the file is kept')
  write('a.gz', 'another, which is longer\n')
  t.not((await acquire('a.gz')).handle, third.handle, 'a changed file is decompressed again')
})

t.test('does not keep a file that may change once more without another size or time', async t => {
  const { acquire, write } = stageOf(t)
  const seconds = Date.now() / 1000
  for (const text of ['one\n', 'two\n']) {
    write('a.gz', text, seconds)
    const { handle, reach, release } = await acquire('a.gz')
    await reach(Infinity)
    t.equal((await handle.read(Buffer.alloc(4), 0, 4, 0)).buffer.toString(), text)
    release()
  }
})

t.test('keeps the four most recently used of the unused files', async t => {
  const { acquire, write } = stageOf(t)
  const names = [0, 1, 2, 3, 4].map(n => `${n}.gz`)
  for (const name of names) write(name, name)
  const looked = new Map<string, Awaited<ReturnType<typeof acquire>>>()
  for (const name of names.slice(0, 4)) looked.set(name, await acquire(name))
  for (const look of looked.values()) look.release()
  // Used again, so the second file is now the oldest.
  const again = await acquire('0.gz')
  t.equal(again.handle, looked.get('0.gz')?.handle, 'four are kept')
  again.release()
  const fifth = await acquire('4.gz')
  fifth.release()
  await until(() => looked.get('1.gz')?.handle.fd === -1)
  for (const name of ['0.gz', '2.gz', '3.gz']) t.not(looked.get(name)?.handle.fd, -1, name)
  t.equal((await acquire('4.gz')).handle, fifth.handle)
})

t.test('does not keep a failure: it decompresses again', async t => {
  const { acquire, opened, inflated, write, directory } = stageOf(t, 4)
  write('whole.gz', 'four')
  t.strictSame(
    await (await acquire('whole.gz')).reach(Infinity),
    { size: 4, isWhole: true },
    'exactly the maximum size'
  )
  write('large.gz', 'five!')
  const large = await acquire('large.gz')
  await t.rejects(large.reach(Infinity), { kind: 'too_large', code: 'inflates_too_large' })
  t.not((await acquire('large.gz')).handle, large.handle)
  t.not(large.handle.fd, -1, 'a user keeps the file open')
  large.release()
  await until(() => large.handle.fd === -1)
  write('broken.gz', gzipSync('four').subarray(0, -4))
  await t.rejects((await acquire('broken.gz')).reach(Infinity), { code: 'broken_gzip' })
  write('gone.gz', 'four')
  const log = await opened('gone.gz')
  renameSync(join(directory, 'whole.gz'), join(directory, 'gone.gz'))
  const gone = await inflated.acquire(log)
  await t.rejects(gone.reach(Infinity), { code: 'ENOENT' })
  gone.release()
})

t.test('keeps no file after it was closed', async t => {
  const { acquire, inflated, write } = stageOf(t)
  write('a.gz', 'one\n')
  const { handle, release } = await acquire('a.gz')
  release()
  await inflated.close()
  await until(() => handle.fd === -1)
})

t.test('splits bytes into lines', async t => {
  for (const [text, lines] of [
    ['', []],
    ['\n', ['']],
    ['a', ['a']],
    ['a\n', ['a']],
    ['a\n\n', ['a', '']],
    ['a\r\nb\r\n', ['a', 'b']],
    ['a\rb\nc', ['a\rb', 'c']],
    ['\0\0a\n', ['a']],
    ['\0\0', []],
    ['a\0b', ['a\0b']]
  ] as const)
    t.strictSame(linesOf(Buffer.from(text)), lines, JSON.stringify(text))
  t.strictSame(linesOf(Buffer.from([0x61, 0xff])), ['a\ufffd'])
})

t.test('returns one line of a block', async t => {
  const bytes = Buffer.from('a\r\n\r\nb')
  t.strictSame(
    [lineText(bytes, 0, 2), lineText(bytes, 3, 4), lineText(bytes, 5, 6), lineText(bytes, 2, 2)],
    ['a', '', 'b', '']
  )
})

t.test('moves a cut to the start of a character', async t => {
  const bytes = Buffer.from('a€😀b')
  for (let cut = 0; cut <= bytes.length; cut++) {
    const [starts, next] = [[0, 1, 4, 8, 9].filter(at => at <= cut).at(-1), [0, 1, 4, 8, 9].find(at => at >= cut)]
    t.equal(cutBefore(bytes, cut), starts, `before ${cut}`)
    t.equal(cutAfter(bytes, cut), next, `after ${cut}`)
  }
  const none = Buffer.alloc(20, 0x80)
  t.strictSame([cutBefore(none, 10), cutAfter(none, 10), cutBefore(none, 2)], [10, 10, 2], 'no UTF-8')
  t.equal(cutAfter(none, 18), 20, 'to the end')
})

t.test('detects bytes that are not text', async t => {
  const mixed = (controls: number, all: number): Buffer =>
    Buffer.concat([Buffer.alloc(all - controls, 'a'), Buffer.alloc(controls, 1)])
  t.equal(isBinary(Buffer.alloc(0)), false)
  t.equal(isBinary(Buffer.alloc(5)), true, 'zeros only')
  t.equal(isBinary(Buffer.from('\0\0\0\0text')), false, 'a hole')
  t.equal(isBinary(Buffer.from('text\0')), true)
  t.equal(isBinary(mixed(0, 1000)), false)
  t.equal(isBinary(mixed(9, 1000)), false)
  t.equal(isBinary(mixed(10, 1000)), true, 'one in a hundred')
  t.equal(isBinary(Buffer.from('\t\b\f\r\n\x1b[1m'.repeat(9))), false, 'control characters of text')
  const sample = 32 * 1024
  t.equal(
    isBinary(Buffer.concat([Buffer.alloc(sample, 'a'), Buffer.alloc(sample, 1), Buffer.alloc(sample, 'a')])),
    false,
    'the middle is not checked'
  )
  t.equal(
    isBinary(Buffer.concat([Buffer.alloc(sample, 'a'), Buffer.alloc(sample, 'a'), mixed(sample, sample)])),
    true,
    'the end is checked'
  )
  t.equal(isBinary(mixed(400, sample + 500)), true, 'a tail shorter than a sample is checked once')
})
