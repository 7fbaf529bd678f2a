import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createSegmentThreads } from '../../lib/archive/segment-threads.js'
import { packInMemory } from '../../lib/archive/segment-memory.js'
import type { ZipSource } from '../../lib/archive/source.js'
import { watchDescriptors } from '../support/descriptors.js'

/** Counts the worker threads of this process. */
const seen = { started: 0, living: 0 }
process.on('worker', worker => {
  seen.started++
  seen.living++
  worker.once('exit', () => void seen.living--)
})

const text = (i: number): Buffer => Buffer.from(`${i} some text `.repeat(2000))
const segment = (i: number): ZipSource[] =>
  Array.from({ length: 20 }, (_, n) => ({
    path: `${i}/${n}`,
    kind: 'file',
    source: text(n),
    bytes: text(n).length,
    mode: 0o644,
    mtimeMs: 0
  }))

t.test('many segments share the threads, and each gets its own result', async t => {
  const threads = createSegmentThreads()
  const packed = await Promise.all(
    Array.from({ length: 12 }, (_, i) => threads.pack({ kind: 'segment', sources: segment(i), level: 6 }))
  )
  for (const [i, zip] of packed.entries()) t.ok(Buffer.from(zip).includes(`${i}/19`), `segment ${i}`)
  t.equal(seen.started, Math.min(threads.count, 2))
  t.ok(packInMemory(segment(0), 6).equals(packed[0] as Uint8Array), 'same result as in this thread')
  await threads.close()
  t.equal(seen.living, 0, 'close ends the threads')
})

t.test('passes on a refusal that names the file, and keeps the thread', async t => {
  const threads = createSegmentThreads()
  t.teardown(() => threads.close())
  const gone: ZipSource = { path: 'a', kind: 'file', source: join(t.testdir(), 'a'), bytes: 1, mode: 0o644, mtimeMs: 0 }
  for (let i = 0; i < 4; i++) {
    await t.rejects(threads.pack({ kind: 'segment', sources: [gone], level: 6 }), {
      kind: 'unavailable',
      code: 'file_vanished',
      field: 'a'
    })
  }
  t.ok((await threads.pack({ kind: 'segment', sources: segment(1), level: 6 })).length > 0)
})

t.test('ends when it is closed during its work', async t => {
  const threads = createSegmentThreads()
  const noise = Buffer.alloc(4_000_000, 'some text that is not quite the same each time ')
  void threads
    .pack({
      kind: 'segment',
      sources: [{ path: 'a', kind: 'file', source: noise, bytes: noise.length, mode: 0o644, mtimeMs: 0 }],
      level: 9
    })
    .catch(() => {})
  await threads.close()
  t.equal(seen.living, 0)
})

t.test(
  'leaves no file open when it is closed while its threads start',
  { skip: process.platform !== 'linux' && 'descriptors are listed in /proc' },
  async t => {
    const { difference, stop } = watchDescriptors()
    t.teardown(stop)
    for (let ms = 0; ms < 60; ms += 4) {
      const threads = createSegmentThreads()
      void threads.pack({ kind: 'segment', sources: segment(0), level: 1 }).catch(() => {})
      await sleep(ms)
      await threads.close()
    }
    t.same(await difference(), [])
  }
)
