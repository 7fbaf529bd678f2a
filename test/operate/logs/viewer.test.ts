import t from 'tap'
import type { Test } from 'tap'
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { open, stat } from 'node:fs/promises'
import { systemClock } from '../../../lib/base/clock.js'
import { createInflatedFiles } from '../../../lib/operate/logs/read/contents.js'
import { createOpenLog, createDeny } from '../../../lib/operate/logs/read/open.js'
import { FileWatcher } from '../../../lib/operate/logs/tail/watch.js'
import { createLogViewer, type LogViewer, newLogLines, seekTime } from '../../../lib/operate/logs/viewer.js'
import type { LogSource } from '../../../lib/model/log-source.js'
import { readWindow } from '../../../lib/operate/logs/read/window.js'
import { insertLogSource, insertProject } from '../../../lib/core/store/tables/projects.js'
import { aProject, aStore } from '../../core/store/stage.js'

const signal = new AbortController().signal

function stage(t: Test, bytes: string | Buffer) {
  const directory = t.testdir({})
  const filePath = join(directory, 'app.log')
  writeFileSync(filePath, bytes)
  const searches = { run: async () => {}, close: async () => {} }
  const openLog = createOpenLog({ deny: createDeny([]), secrets: [] })
  const inflated = createInflatedFiles({ tmp: directory })
  const needs = { openLog, inflated, watcher: new FileWatcher(), searches: searches as never, clock: systemClock }
  const viewer = createLogViewer(needs)
  t.teardown(() => viewer.close())
  return { viewer, source: { id: 'log_a', label: 'app', kind: 'plain', filePath } as LogSource }
}

const text = Array.from({ length: 100 }, (_, index) => `line ${index}\n`).join('')

for (const [what, bytes] of [
  ['a plain file', text],
  ['a compressed file', gzipSync(text)]
] as const) {
  t.test(`describes ${what}, and reads it in parts and as a whole`, async t => {
    const { viewer, source } = stage(t, bytes)
    t.match(await viewer.meta(source, signal), { id: 'log_a', kind: 'plain', size: text.length })
    const end = await viewer.range(source, { direction: 'tail', sizeBytes: 20, signal } as never)
    t.match(end, { lines: ['line 98', 'line 99'], endOffset: text.length, truncatedHead: true })
    const begin = await viewer.range(source, { direction: 'forward', sizeBytes: 20, signal } as never)
    t.match(begin, { lines: ['line 0', 'line 1'], startOffset: 0, truncatedTail: true })
    let whole = ''
    for await (const piece of viewer.read(source, signal)) whole += String(piece)
    t.equal(whole, text)
  })
}

t.test('refuses a missing file', async t => {
  const { viewer, source } = stage(t, text)
  await viewer.check(source)
  await t.rejects(viewer.check({ ...source, filePath: `${source.filePath}.none` }), { name: 'Refusal' })
})

t.test('reads what was appended, and a rotated file from its start', async t => {
  const store = await aStore(t)
  const filePath = join(t.testdir({}), 'app.log')
  writeFileSync(filePath, 'before\n')
  const createdAt = '2030-01-01T00:00:00.000Z'
  const source = { id: 'lsrc_a', projectId: 'proj_a', label: 'app', filePath, kind: 'plain' as const, sortOrder: 0 }
  await store.write(tx => {
    insertProject(tx, aProject({ id: 'proj_a' }))
    insertLogSource(tx, { ...source, createdAt, updatedAt: createdAt })
  })
  const viewer: Pick<LogViewer, 'meta' | 'range'> = {
    meta: async source => ({ ...source, resolvedPath: filePath, size: (await stat(filePath)).size }),
    async range(_, { direction, offset = 0, sizeBytes }) {
      const handle = await open(filePath)
      try {
        return await readWindow(handle, (await handle.stat()).size, { direction, offset, sizeBytes })
      } finally {
        await handle.close()
      }
    }
  }
  const { signal } = new AbortController()
  const read = (offset: number | null, sourceId = 'lsrc_a', projectId = 'proj_a') =>
    newLogLines(store, viewer, { projectId, sourceId, offset, signal })
  const first = await read(null)
  t.strictSame(first, { lines: [], endOffset: 7, hasMore: false })
  t.strictSame(await read(7), { lines: [], endOffset: 7, hasMore: false })
  appendFileSync(filePath, 'one\ntwo\n')
  t.strictSame(await read(7), { lines: ['one', 'two'], endOffset: 15, hasMore: false })
  writeFileSync(filePath, 'new\n')
  t.strictSame(await read(15), { lines: ['new'], endOffset: 4, hasMore: false })
  writeFileSync(filePath, 'x'.repeat(99).concat('\n').repeat(6000))
  const large = await read(0)
  t.ok(large.hasMore)
  t.equal(large.lines.length, large.endOffset / 100)
  await t.rejects(read(0, 'lsrc_b'), { code: 'not_found' })
  await t.rejects(read(0, 'lsrc_a', 'proj_b'), { code: 'not_found' })
})

/** A log on the disk. Returns the line at or after a time. */
async function fileOf(t: Test, lines: string[]) {
  const path = join(t.testdir({}), 'file')
  writeFileSync(path, lines.map(line => `${line}\n`).join(''))
  const handle = await open(path)
  t.teardown(() => handle.close())
  const { size } = await handle.stat()
  let looked = 0
  const timeOf = (line: string): number | null => {
    looked++
    return /^\d+/.test(line) ? Number.parseInt(line, 10) : null
  }
  return {
    looked: () => looked,
    async lineAt(atMs: number): Promise<string | null> {
      const offset = await seekTime({ handle, size }, { atMs, timeOf, signal: new AbortController().signal })
      if (offset === size) return null
      const { buffer, bytesRead } = await handle.read(Buffer.alloc(100), 0, 100, offset)
      return buffer.toString('utf8', 0, bytesRead).split('\n')[0] ?? null
    }
  }
}

t.test('finds the first line at or after a time anywhere in a large file by reading few lines', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 200_000 }, (_, index) => `${String(index * 10).padStart(8, '0')} some words`)
  )
  for (const [atMs, expected] of [
    [-1, '00000000'],
    [0, '00000000'],
    [5, '00000010'],
    [123_450, '00123450'],
    [1_999_990, '01999990']
  ] as const) {
    t.equal((await file.lineAt(atMs))?.slice(0, 8), expected, String(atMs))
  }
  t.equal(await file.lineAt(1_999_991), null, 'no line has this time')
  t.ok(file.looked() < 60_000, `${file.looked()} of 200,000 lines for six searches`)
})

t.test('finds every line of a file by its own time, wherever windows begin', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 9000 }, (_, index) => `${index} ${'é'.repeat(index % 37)}`)
  )
  for (let index = 0; index < 9000; index += 83) t.equal((await file.lineAt(index))?.split(' ')[0], String(index))
})

t.test('skips lines without a time', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 40_000 }, (_, index) => (index % 50 === 0 ? `${index} begins` : '    at some.frame()'))
  )
  t.equal(await file.lineAt(20_001), '20050 begins')
  t.equal(await (await fileOf(t, [])).lineAt(1), null)
})

t.test('refuses a log without times instead of searching all of it', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 1_600_000 }, () => 'no time at all')
  )
  await t.rejects(file.lineAt(1), { code: 'no_times' })
  t.ok(file.looked() < 450_000, `${file.looked()} of 1,600,000 lines`)
})

t.test('finds the first of several lines with the same time', async t => {
  const file = await fileOf(
    t,
    Array.from({ length: 30_000 }, (_, index) => `${Math.floor(index / 10_000)} line ${index}`)
  )
  t.equal(await file.lineAt(1), '1 line 10000')
  t.equal(await file.lineAt(2), '2 line 20000')
})

t.test('skips a line that is longer than the windows', async t => {
  const file = await fileOf(t, [
    ...Array.from({ length: 9000 }, (_, index) => `${index} a`),
    `9000 ${'x'.repeat(300_000)}`,
    '9001 b'
  ])
  t.equal((await file.lineAt(9000))?.slice(0, 6), '9000 x')
  t.equal(await file.lineAt(9001), '9001 b')
})

t.test('passes over any number of lines without a time', async t => {
  const dump = Array.from({ length: 20_000 }, () => `"payload": "${'QUJD'.repeat(30)}"`)
  const timed = (from: number): string[] => Array.from({ length: 1000 }, (_, index) => `${from + index} words`)
  const file = await fileOf(t, [...timed(10_000), ...dump, ...timed(20_000), ...dump])
  for (const atMs of [10_000, 10_999, 20_000, 20_500, 20_999]) {
    t.equal((await file.lineAt(atMs))?.split(' ')[0], String(atMs))
  }
  t.equal((await file.lineAt(15_000))?.split(' ')[0], '20000', 'the first line after the dump')
  t.equal(await file.lineAt(30_000), null)
})

t.test('finds times that are only in the middle of a log', async t => {
  const dump = Array.from({ length: 10_000 }, () => `"payload": "${'QUJD'.repeat(30)}"`)
  const timed = Array.from({ length: 1000 }, (_, index) => `${10_000 + index} words`)
  const file = await fileOf(t, [...dump, ...timed, ...dump, ...dump])
  t.equal(await file.lineAt(10_500), '10500 words')
  t.equal(await file.lineAt(1), '10000 words')
  t.equal(await file.lineAt(20_000), null)
})
