import t from 'tap'
import type { Test } from 'tap'
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { Generation, findCopy, markOf } from '../../../../lib/operate/logs/read/generation.js'
import { contentsOf, createInflatedFiles } from '../../../../lib/operate/logs/read/contents.js'
import { createOpenLog, type OpenLog, createDeny } from '../../../../lib/operate/logs/read/open.js'

async function follow(t: Test, before: string, offset = 0) {
  const path = join(t.testdir({}), 'app.log')
  writeFileSync(path, before)
  const handle = await open(path)
  const contents = { handle, size: before.length, isCompressed: false, release: () => handle.close() }
  const mark = Buffer.from(before.slice(0, offset))
  const generation = new Generation({ identity: 'file', contents, offset, mark, mtimeMs: 7 })
  t.teardown(() => generation.release())
  return { path, generation }
}

t.test('returns lines when they end, and an incomplete line as the rest', async t => {
  const { path, generation } = await follow(t, 'one\ntwo\nhal')
  t.same(await generation.read(), { lines: ['one', 'two'], isEnd: true })
  t.equal(generation.offset, 11)
  t.equal(generation.place().offset, 8)
  appendFileSync(path, 'f\n')
  t.same(await generation.read(), { lines: ['half'], isEnd: true })
  appendFileSync(path, 'rest')
  t.same(await generation.read(), { lines: [], isEnd: true })
  t.same(generation.rest(), ['rest'])
})

t.test('continues in the middle of a line whose beginning was shown', async t => {
  const { generation } = await follow(t, 'shown\nnew\n', 5)
  t.same((await generation.read())?.lines, ['new'], 'the end of a line that was shown is not a line')
})

t.test('detects a rewritten file, even if it is longer than before', async t => {
  const { path, generation } = await follow(t, 'old line\n')
  await generation.read()
  truncateSync(path, 0)
  writeFileSync(path, 'other contents, and more of them\n')
  t.equal(await generation.read(), null)
})

t.test('returns a long file in several reads', async t => {
  const { generation } = await follow(t, 'x'.repeat(99).concat('\n').repeat(5000))
  let lines = 0
  for (let isEnd = false; !isEnd; ) {
    const read = await generation.read()
    lines += read?.lines.length ?? 0
    isEnd = read?.isEnd ?? true
  }
  t.equal(lines, 5000)
})

t.test('its place is after the last whole line, with the checksum of the 64 bytes before it', async t => {
  const text = `${'é'.repeat(100)}\nshort\n`
  const { path, generation } = await follow(t, '')
  for (const byte of Buffer.from(`${text}${'x'.repeat(300)}`)) {
    appendFileSync(path, Buffer.from([byte]))
    await generation.read()
  }
  const place = { offset: Buffer.byteLength(text), identity: 'file', mark: markOf(Buffer.from(text)), mtimeMs: 7 }
  t.same(generation.place(), place)
  t.same(generation.rest(), ['x'.repeat(300)])
  t.match(generation.place(), { offset: place.offset + 300, mark: markOf(Buffer.from('x'.repeat(64))) })
})

// test/operate/logs/tail/logrotate.test.ts tests this with a running writer and a real logrotate.

const read = 'one\ntwo\n'
const longAgo = new Date('2030-01-01T00:00:00Z')

/** Files beside `app.log` when it is found truncated after `read` was read, and the lines that were missed. */
const cases: Array<[what: string, make: (directory: string) => void, lines: string[] | null]> = [
  ['nothing', () => {}, null],
  ['the copy', at => writeFileSync(join(at, 'app.log.1'), `${read}three\nfour\n`), ['three', 'four']],
  ['a copy with a date in its name', at => writeFileSync(join(at, 'app.log-20300101'), `${read}three\n`), ['three']],
  ['a copy without further lines', at => writeFileSync(join(at, 'app.log.1'), read), []],
  ['another log', at => writeFileSync(join(at, 'app.log.1'), 'eins\nzwo\ndrei\nvier\n'), null],
  ["a copy of logrotate's extension", at => writeFileSync(join(at, 'app-20300101.log'), `${read}three\n`), ['three']],
  [
    'a copy by pm2-logrotate',
    at => writeFileSync(join(at, 'app__2030-01-01_00-00-10.log'), `${read}three\n`),
    ['three']
  ],
  [
    'a compressed copy by pm2-logrotate',
    at => {
      writeFileSync(join(at, 'app__2030-01-01_00-00-10.log.gz'), gzipSync(`${read}three\n`))
    },
    ['three']
  ],
  ['a copy with any name', at => writeFileSync(join(at, 'rotated'), `${read}three\n`), ['three']],
  [
    'a copy, and another log with the same beginning',
    at => {
      writeFileSync(join(at, 'a-neighbour.log'), `${read}drei\n`)
      writeFileSync(join(at, 'app-20300101.log'), `${read}three\n`)
    },
    ['three']
  ],
  [
    'a directory, and a compressed file with another name',
    at => {
      mkdirSync(join(at, 'app.log.1'))
      writeFileSync(join(at, 'backup.gz'), gzipSync(`${read}three\n`))
    },
    null
  ],
  [
    'an older rotation with the same beginning',
    at => {
      writeFileSync(join(at, 'app.log.2'), `${read}three\n`)
      utimesSync(join(at, 'app.log.2'), longAgo, new Date(Date.now() - 60_000))
    },
    null
  ],
  [
    'both a copy and an older rotation',
    at => {
      writeFileSync(join(at, 'app.log.1'), 'eins\nzwo\ndrei\n')
      writeFileSync(join(at, 'app.log.2'), `${read}three\n`)
    },
    ['three']
  ],
  [
    'a copy that was compressed at once',
    at => writeFileSync(join(at, 'app.log.1.gz'), gzipSync(`${read}three\n`)),
    ['three']
  ],
  ['another log, compressed', at => writeFileSync(join(at, 'app.log.1.gz'), gzipSync('eins\nzwo\ndrei\nvier\n')), null],
  [
    'a compressed copy that is still being written',
    at => {
      writeFileSync(join(at, 'app.log.1.gz'), gzipSync(`${read}three\n`).subarray(0, -4))
    },
    null
  ],
  [
    'a link to a denied file',
    at => {
      writeFileSync(join(at, 'secret.pem'), `${read}three\n`)
      symlinkSync(join(at, 'secret.pem'), join(at, 'app.log.1'))
    },
    null
  ]
]

/** Truncates `app.log` after `read` was read. */
async function truncated(t: Test) {
  const directory = t.testdir({ 'app.log': read })
  const { signal } = new AbortController()
  const needs = {
    openLog: createOpenLog({ deny: createDeny([]), secrets: [] }),
    inflated: createInflatedFiles({ tmp: directory })
  }
  t.teardown(() => needs.inflated.close())
  const path = join(directory, 'app.log')
  const log = await needs.openLog(path)
  const contents = await contentsOf(log, needs.inflated, signal)
  const generation = new Generation({
    identity: log.identity,
    contents,
    offset: read.length,
    mark: Buffer.from(read),
    mtimeMs: log.mtimeMs
  })
  t.teardown(() => generation.release())
  writeFileSync(path, '')
  return { directory, signal, needs, path, generation }
}

t.test('finds a copy that is compressed during the search', async t => {
  const { directory, signal, needs, path, generation } = await truncated(t)
  const copy = join(directory, 'app.log.1')
  writeFileSync(copy, `${read}three\n`)
  let looks = 0
  const openLog: OpenLog = place => {
    if (place === copy && ++looks === 1) {
      writeFileSync(`${copy}.gz`, gzipSync(readFileSync(copy)))
      rmSync(copy)
    }
    return needs.openLog(place)
  }
  const found = await findCopy({ ...needs, openLog }, { path, generation, signal })
  t.ok(found)
  if (found !== null) await generation.moveTo(found)
  t.same(await generation.read(), { lines: ['three'], isEnd: true })
})

for (const [what, make, lines] of cases) {
  t.test(`handles beside a truncated log: ${what}`, async t => {
    const { directory, signal, needs, path, generation } = await truncated(t)
    make(directory)
    t.equal(await generation.read(), null, 'the truncation is detected')
    const copy = await findCopy(needs, { path, generation, signal })
    t.equal(copy === null, lines === null)
    if (copy === null) return
    await generation.moveTo(copy)
    t.same(await generation.read(), { lines, isEnd: true })
  })
}
