import { mkdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { contentsOf } from '../../../lib/logs/read/contents.js'
import { findCopy } from '../../../lib/logs/read/copied.js'
import { createDeny } from '../../../lib/logs/read/deny.js'
import { createGeneration } from '../../../lib/logs/read/generation.js'
import { createInflatedFiles } from '../../../lib/logs/read/inflated.js'
import { createOpenLog, type OpenLog } from '../../../lib/logs/read/open.js'

// logrotate.test.ts tests this with a running writer and a real logrotate.

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
  const generation = createGeneration({
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
