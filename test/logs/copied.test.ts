import { mkdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { contentsOf } from '../../lib/logs/contents.js'
import { findCopy } from '../../lib/logs/copied.js'
import { createDeny } from '../../lib/logs/deny.js'
import { createGeneration } from '../../lib/logs/generation.js'
import { createInflatedFiles } from '../../lib/logs/inflated.js'
import { createOpenLog, type OpenLog } from '../../lib/logs/open.js'

// What a writer that goes on, and a real logrotate, make of it: logrotate.test.ts.

const read = 'one\ntwo\n'
const longAgo = new Date('2030-01-01T00:00:00Z')

/** What lies beside `app.log`, of which `read` has been read, when it is found truncated; and the lines that were missing. */
const cases: Array<[what: string, make: (directory: string) => void, lines: string[] | null]> = [
  ['nothing', () => {}, null],
  ['the copy', at => writeFileSync(join(at, 'app.log.1'), `${read}three\nfour\n`), ['three', 'four']],
  ['a copy named by its day', at => writeFileSync(join(at, 'app.log-20300101'), `${read}three\n`), ['three']],
  ['a copy without anything more', at => writeFileSync(join(at, 'app.log.1'), read), []],
  ['another log', at => writeFileSync(join(at, 'app.log.1'), 'eins\nzwo\ndrei\nvier\n'), null],
  ["a copy of logrotate's extension", at => writeFileSync(join(at, 'app-20300101.log'), `${read}three\n`), ['three']],
  ['a copy of pm2-logrotate', at => writeFileSync(join(at, 'app__2030-01-01_00-00-10.log'), `${read}three\n`), ['three']],
  ['a compressed copy of pm2-logrotate', at => {
    writeFileSync(join(at, 'app__2030-01-01_00-00-10.log.gz'), gzipSync(`${read}three\n`))
  }, ['three']],
  ['a copy of any name', at => writeFileSync(join(at, 'rotated'), `${read}three\n`), ['three']],
  ['a copy, and another log that began alike', at => {
    writeFileSync(join(at, 'a-neighbour.log'), `${read}drei\n`)
    writeFileSync(join(at, 'app-20300101.log'), `${read}three\n`)
  }, ['three']],
  ['a directory, and a compressed file of another name', at => {
    mkdirSync(join(at, 'app.log.1'))
    writeFileSync(join(at, 'backup.gz'), gzipSync(`${read}three\n`))
  }, null],
  ['an older rotation that began alike', at => {
    writeFileSync(join(at, 'app.log.2'), `${read}three\n`)
    utimesSync(join(at, 'app.log.2'), longAgo, new Date(Date.now() - 60_000))
  }, null],
  ['both of them', at => {
    writeFileSync(join(at, 'app.log.1'), 'eins\nzwo\ndrei\n')
    writeFileSync(join(at, 'app.log.2'), `${read}three\n`)
  }, ['three']],
  ['a copy that was compressed at once', at => writeFileSync(join(at, 'app.log.1.gz'), gzipSync(`${read}three\n`)), ['three']],
  ['another log, compressed', at => writeFileSync(join(at, 'app.log.1.gz'), gzipSync('eins\nzwo\ndrei\nvier\n')), null],
  ['a compressed copy that is being written still', at => {
    writeFileSync(join(at, 'app.log.1.gz'), gzipSync(`${read}three\n`).subarray(0, -4))
  }, null],
  ['a link to where nobody may look', at => {
    writeFileSync(join(at, 'secret.pem'), `${read}three\n`)
    symlinkSync(join(at, 'secret.pem'), join(at, 'app.log.1'))
  }, null]
]

/** `app.log`, of which `read` has been read, truncated. */
async function truncated(t: Test) {
  const directory = t.testdir({ 'app.log': read })
  const { signal } = new AbortController()
  const needs = { openLog: createOpenLog({ deny: createDeny([]), secrets: [] }), inflated: createInflatedFiles({ tmp: directory }) }
  t.teardown(() => needs.inflated.close())
  const path = join(directory, 'app.log')
  const log = await needs.openLog(path)
  const contents = await contentsOf(log, needs.inflated, signal)
  const generation = createGeneration({ identity: log.identity, contents, offset: read.length, mark: Buffer.from(read) })
  t.teardown(() => generation.release())
  writeFileSync(path, '')
  return { directory, signal, needs, path, generation }
}

t.test('beside a truncated log: a copy that is compressed while it is looked for', async t => {
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
  const found = await findCopy({ ...needs, openLog }, path, generation, signal)
  t.ok(found)
  if (found !== null) await generation.moveTo(found)
  t.same(await generation.read(), { lines: ['three'], isEnd: true })
})

for (const [what, make, lines] of cases) {
  t.test(`beside a truncated log: ${what}`, async t => {
    const { directory, signal, needs, path, generation } = await truncated(t)
    make(directory)
    t.equal(await generation.read(), null, 'it is seen to be truncated')
    const copy = await findCopy(needs, path, generation, signal)
    t.equal(copy === null, lines === null)
    if (copy === null) return
    await generation.moveTo(copy)
    t.same(await generation.read(), { lines, isEnd: true })
  })
}
