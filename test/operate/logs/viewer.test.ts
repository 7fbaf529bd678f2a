import t, { type Test } from 'tap'
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { open, stat } from 'node:fs/promises'
import { systemClock } from '../../../lib/base/clock.js'
import { createInflatedFiles } from '../../../lib/operate/logs/read/contents.js'
import { createOpenLog, createDeny } from '../../../lib/operate/logs/read/open.js'
import { FileWatcher } from '../../../lib/operate/logs/tail/watch.js'
import {
  createLogViewer,
  type LogViewer,
  newLogLines,
  seekTime,
  readWindow,
  type Direction
} from '../../../lib/operate/logs/viewer.js'
import type { LogSource, LogWindow } from '../../../lib/model/log-source.js'
import { insertLogSource, insertProject } from '../../../lib/core/store/tables/projects.js'
import { aProject, aStore } from '../../core/store/stage.js'
import { createRandom } from '../../support/random.js'
import { repetitions } from '../../support/thorough.js'

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

type Look = (direction: Direction, offset: number, sizeBytes: number) => Promise<LogWindow>

async function look(t: Test, bytes: string | Buffer): Promise<Look> {
  const handle = await open(join(t.testdir({}), 'file'), 'w+')
  t.teardown(() => handle.close())
  await handle.writeFile(bytes)
  const { size } = await handle.stat()
  return (direction, offset, sizeBytes) => readWindow(handle, size, { direction, offset, sizeBytes })
}

t.test('begins and ends a window with a line', async t => {
  const window = await look(t, 'one\ntwo\r\n\nthree')
  const cases: Array<[Direction, number, number, string[], number, number, string]> = [
    ['tail', 0, 100, ['one', 'two', '', 'three'], 0, 15, 'all of it'],
    ['tail', 0, 8, ['', 'three'], 9, 15, 'the last lines that fit'],
    ['tail', 0, 6, ['', 'three'], 9, 15, 'that just fit'],
    ['tail', 0, 5, ['three'], 10, 15, 'that just fits'],
    ['forward', 0, 8, ['one'], 0, 4, 'the first lines that fit'],
    ['forward', 0, 9, ['one', 'two'], 0, 9, 'that just fit'],
    ['forward', 2, 9, ['one', 'two'], 0, 9, 'begins with the line the offset lies in'],
    ['forward', 4, 9, ['two', ''], 4, 10, 'at a line'],
    ['forward', 9, 3, [''], 9, 10, 'an empty line'],
    ['forward', 15, 9, [], 15, 15, 'nothing at the end'],
    ['forward', 99, 9, [], 15, 15, 'beyond the end'],
    ['backward', 9, 100, ['one', 'two'], 0, 9, 'what ends there'],
    ['backward', 9, 7, ['two'], 4, 9, 'the last line before'],
    ['backward', 6, 20, ['one', 'two'], 0, 9, 'ends with the line the offset lies in'],
    ['backward', 0, 7, [], 0, 0, 'nothing before the start']
  ]
  for (const [direction, offset, size, lines, start, end, what] of cases) {
    t.same(
      await window(direction, offset, size),
      {
        startOffset: start,
        endOffset: end,
        fileSize: 15,
        lines,
        truncatedHead: start > 0,
        truncatedTail: end < 15,
        binary: false
      },
      `${direction} ${offset} ${size}: ${what}`
    )
  }
})

t.test('returns every byte once when paging through any file, for every size and in both directions', async t => {
  const files = {
    'short lines': 'a\nbb\n\nccc\r\n\r\ndddd',
    'long lines': `${'x'.repeat(50)}\n${'y'.repeat(31)}\r\nshort\n${'z'.repeat(64)}`,
    'characters of every length': `${'aä€😀'.repeat(9)}\n${'😀'.repeat(20)}\nende\n`,
    'no UTF-8': Buffer.concat([Buffer.alloc(40, 0xbf), Buffer.from('\n'), Buffer.alloc(40, 0xe4)]),
    'only line ends': '\n\n\r\n\n\n'
  }
  for (const [what, file] of Object.entries(files)) {
    const bytes = Buffer.from(file as string)
    const window = await look(t, bytes)
    const isText = !bytes.toString().includes('\ufffd')
    for (let size = 1; size < 80; size++) {
      const pieces: LogWindow[] = []
      for (let at = 0; at < bytes.length; ) {
        const one = await window('forward', at, size)
        if (one.startOffset !== at || one.endOffset <= at)
          t.fail(`${what}, ${size} forward at ${at}: ${JSON.stringify(one)}`)
        at = Math.max(one.endOffset, at + 1)
        pieces.push(one)
      }
      for (let at = bytes.length; at > 0; ) {
        const one = await window('backward', at, size)
        if (one.endOffset !== at || one.startOffset >= at)
          t.fail(`${what}, ${size} backward at ${at}: ${JSON.stringify(one)}`)
        at = Math.min(one.startOffset, at - 1)
        pieces.push(one)
      }
      const broken = pieces.find(({ lines }) => isText && lines.some(line => line.includes('\ufffd')))
      if (broken) t.fail(`${what}, ${size}: a character was split: ${JSON.stringify(broken)}`)
      const wide = pieces.find(({ startOffset, endOffset }) => endOffset - startOffset > Math.max(size, 4) + 2)
      if (wide) t.fail(`${what}, ${size}: too wide: ${JSON.stringify(wide)}`)
    }
    t.pass(what)
  }
})

t.test('returns a window that contains the requested offset', async t => {
  const bytes = Buffer.from(`one\ntwo\n${'x'.repeat(40)}\nlast\n`)
  const window = await look(t, bytes)
  for (let size = 8; size < 60; size++) {
    for (let at = 0; at < bytes.length; at++) {
      const one = await window('forward', at, size)
      if (one.startOffset > at || one.endOffset <= at) t.fail(`forward ${at} ${size}`)
      const back = await window('backward', at + 1, size)
      if (back.startOffset > at || back.endOffset <= at) t.fail(`backward ${at} ${size}`)
    }
  }
})

t.test('detects binary files', async t => {
  t.match(await (await look(t, Buffer.from([0, 1, 2, 255, 10, 0, 3])))('tail', 0, 100), { binary: true, lines: [] })
  t.match(await (await look(t, `${'text\n'.repeat(200)}\0\n`))('tail', 0, 9999), { binary: false }, 'one stray NUL')
  const hole = Buffer.concat([Buffer.alloc(5000), Buffer.from('after copytruncate\n')])
  t.same((await (await look(t, hole))('tail', 0, 9999)).lines, ['after copytruncate'], 'a hole at the start')
  t.match(await (await look(t, ''))('tail', 0, 100), { binary: false, lines: [], fileSize: 0 }, 'an empty file')
})

t.test('returns a whole character if the size is smaller, for every width and offset', async t => {
  const random = createRandom(13)
  const characters = ['a', 'ä', '€', '😀', '\n', '\r\n']
  const files = [
    '😀',
    '€',
    'ä',
    '😀\n',
    '\r\n',
    'a😀b',
    ...random.some(60, () => random.some(12, () => random.oneOf(characters)).join(''))
  ]
  let checked = 0
  for (const file of files) {
    const bytes = Buffer.from(file)
    const window = await look(t, bytes)
    const starts = startsOf(file)
    for (const direction of ['forward', 'backward', 'tail'] as const) {
      for (let size = 1; size <= 8; size++) {
        for (let at = 0; at <= bytes.length; at++) {
          const { startOffset, endOffset, lines } = await window(direction, at, size)
          const where = `${JSON.stringify(file)} ${direction} ${at} ${size}: ${startOffset} to ${endOffset}`
          const asked = direction === 'tail' ? bytes.length : at
          if (!starts.has(startOffset) || !starts.has(endOffset)) t.fail(`${where}: a character is cut`)
          if (lines.some(line => line.includes('\ufffd'))) t.fail(`${where}: ${JSON.stringify(lines)}`)
          if (direction === 'forward' ? asked < bytes.length && endOffset <= asked : asked > 0 && startOffset >= asked)
            t.fail(`${where}: nothing new`)
          if (direction === 'forward' ? startOffset > asked : endOffset < asked) t.fail(`${where}: bytes are left out`)
          checked++
        }
      }
    }
  }
  t.comment(`${checked} windows`)
})

/** Returns the positions at which characters start, and the end of the text: the only allowed edges. */
function startsOf(text: string): Set<number> {
  const starts = new Set([0])
  let at = 0
  for (const character of text) starts.add((at += Buffer.byteLength(character)))
  return starts
}

t.test('returns the same lines as the whole file if the lines fit', async t => {
  let checked = 0
  for (let seed = 1; seed <= repetitions(30, 150); seed++) {
    const random = createRandom(seed)
    const lines = [0, ...random.some(12, () => 0)].map(
      () => `${'xä€😀'.slice(0, random.below(4))}${'y'.repeat(random.below(12))}${random.oneOf(['\n', '\r\n'])}`
    )
    if (random.below(2) === 0) lines.push('unfinished')
    const bytes = Buffer.from(lines.join(''))
    const edges = [0]
    for (const line of lines) edges.push((edges.at(-1) as number) + Buffer.byteLength(line))
    const longest = Math.max(...lines.map(line => Buffer.byteLength(line)))
    const window = await look(t, bytes)
    for (let count = 0; count < 40; count++) {
      const size = longest + 8 + random.below(60)
      const at = random.below(bytes.length + 1)
      const start = edges.findLast(edge => edge <= at) as number
      const end = edges.find(edge => edge >= at) as number
      const expected = {
        forward: [start, edges.findLast(edge => edge <= start + size)],
        backward: [edges.find(edge => edge >= end - size), end],
        tail: [edges.find(edge => edge >= bytes.length - size), bytes.length]
      }
      for (const direction of ['forward', 'backward', 'tail'] as const) {
        const { startOffset, endOffset, lines: shown } = await window(direction, at, size)
        const wanted = expected[direction]
        const text = bytes.subarray(wanted[0], wanted[1]).toString()
        const plainLines = text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/)
        checked++
        if (
          startOffset === wanted[0] &&
          endOffset === wanted[1] &&
          JSON.stringify(shown) === JSON.stringify(plainLines)
        )
          continue
        t.same([startOffset, endOffset, shown], [...wanted, plainLines], `seed ${seed}: ${direction} ${at} ${size}`)
      }
    }
  }
  t.comment(`${checked} windows`)
})
