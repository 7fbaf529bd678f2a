import t from 'tap'
import type { Test } from 'tap'
import {
  appendFileSync,
  copyFileSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { open, readFile } from 'node:fs/promises'
import { systemClock } from '../../../../lib/base/clock.js'
import { createInflatedFiles } from '../../../../lib/operate/logs/read/contents.js'
import { createOpenLog, createDeny } from '../../../../lib/operate/logs/read/open.js'
import {
  filesBetween,
  idOf,
  placesOf,
  rangeOfHead,
  rangeOfTail,
  rotationOf
} from '../../../../lib/operate/logs/tail/resume.js'
import { FileWatcher, createSharedLooks } from '../../../../lib/operate/logs/tail/watch.js'
import { followLog } from '../../../../lib/operate/logs/tail/tail.js'
import { createRandom } from '../../../support/random.js'
import { until } from '../../../support/until.js'

t.jobs = 8

/** A log, and a client that loses its connection and continues after the last id. */
function clientOf(t: Test, before: string) {
  const directory = t.testdir({ 'app.log': before })
  const path = join(directory, 'app.log')
  const needs = {
    openLog: createOpenLog({ deny: createDeny([]), secrets: [] }),
    inflated: createInflatedFiles({ tmp: directory }),
    watcher: new FileWatcher(),
    looks: createSharedLooks(),
    clock: systemClock
  }
  const said: string[] = []
  let lastId = ''
  let cut = async (): Promise<void> => {}
  t.teardown(async () => {
    await cut()
    needs.watcher.close()
    await needs.inflated.close()
  })
  async function connect(after = lastId): Promise<void> {
    const connection = new AbortController()
    const { signal } = connection
    const over = followLog(needs, { filePath: path, tailLines: 0, after, batchMs: 5, signal }, async event => {
      if (event.event === 'snapshot') {
        const lines: string[] = []
        for await (const some of event.lines) lines.push(...some)
        said.push('(snapshot)', ...lines)
        lastId = event.id()
      } else if (event.event === 'lines') {
        said.push(...event.data.lines)
        lastId = event.id ?? lastId
      } else said.push(event.event === 'gap' ? `(gap ${event.data.bytes})` : `(${event.event})`)
    }).catch(error => {
      if (!signal.aborted) throw error
    })
    cut = async () => {
      connection.abort(new Error('cut'))
      await over
    }
  }
  return {
    path,
    connect,
    id: () => lastId,
    cut: () => cut(),
    append: (text: string) => appendFileSync(path, text),
    last: (word: string) => until(() => said.at(-1) === word, { what: () => `${word}: ${JSON.stringify(said)}` }),
    /** What was said since the last call. */
    said: () => said.splice(0)
  }
}

/** A client that has read `two` and lost its connection. */
async function away(t: Test, before = 'one\n') {
  const client = clientOf(t, before)
  await client.connect()
  await client.last('(snapshot)')
  client.append('two\n')
  await client.last('two')
  await client.cut()
  client.said()
  return client
}

t.test('continues in the same file, also with a line that was incomplete', async t => {
  const client = await away(t)
  client.append('three\nfo')
  await client.connect()
  await client.last('three')
  await client.cut()
  client.append('ur\n')
  await client.connect()
  await client.last('four')
  t.same(client.said(), ['(resumed)', 'three', '(resumed)', 'four'])
})

t.test('continues in a file that was renamed, and through the files after it', async t => {
  const client = await away(t)
  client.append('three\n')
  renameSync(client.path, `${client.path}.2`)
  writeFileSync(`${client.path}.1`, 'four\n')
  writeFileSync(client.path, 'five\n')
  await client.connect()
  await client.last('five')
  t.same(client.said(), ['(resumed)', 'three', 'four', '(rotated)', '(snapshot)', 'five'])
  appendFileSync(`${client.path}.1`, 'late\n')
  await client.last('late')
  await client.cut()
  appendFileSync(`${client.path}.1`, 'later\n')
  client.append('six\n')
  await client.connect()
  await client.last('six')
  t.same(client.said(), ['late', 'later', '(resumed)', 'six'])
})

t.test('continues in a compressed copy of the file, and in a copy of a truncated one', async t => {
  const client = await away(t)
  client.append('three\n')
  writeFileSync(`${client.path}.1.gz`, gzipSync(readFileSync(client.path)))
  unlinkSync(client.path)
  writeFileSync(client.path, 'four\n')
  await client.connect()
  await client.last('four')
  t.same(client.said(), ['(resumed)', 'three', '(rotated)', '(snapshot)', 'four'])
  await client.cut()
  client.append('five\n')
  renameSync(`${client.path}.1.gz`, `${client.path}.2.gz`)
  copyFileSync(client.path, `${client.path}.1`)
  truncateSync(client.path)
  client.append('longer than the old file\n')
  await client.connect()
  await client.last('longer than the old file')
  t.same(client.said(), ['(resumed)', 'five', '(rotated)', '(snapshot)', 'longer than the old file'])
})

t.test('says that there is a gap if the file no longer exists, and sends all of the new one', async t => {
  const client = await away(t)
  client.append('lost\n')
  truncateSync(client.path)
  client.append('three is longer than one, two and lost\n')
  await client.connect()
  await client.last('three is longer than one, two and lost')
  t.same(client.said(), ['(gap 0)', '(rotated)', '(snapshot)', 'three is longer than one, two and lost'])
})

t.test('says how large a gap is if the new file is too large to be sent', async t => {
  const client = clientOf(t, 'one\n')
  const other = `${client.path}-of-another-day`
  const rest = `${'x'.repeat(1023)}\n`.repeat(17 * 1024)
  writeFileSync(other, rest)
  await sleep(10)
  client.append('two\n')
  await client.connect()
  await client.last('(snapshot)')
  await client.cut()
  client.said()
  renameSync(client.path, `${client.path}.1`)
  renameSync(other, client.path)
  await client.connect()
  await client.last('(snapshot)')
  t.same(client.said(), ['(resumed)', '(rotated)', `(gap ${rest.length})`, '(snapshot)'])
})

t.test('opens no other file than the log and its rotated ones, and starts as new after any other text', async t => {
  const client = await away(t)
  writeFileSync(join(client.path, '..', 'secret.txt'), 'one\ntwo\nsecret\n')
  const [place] = placesOf(client.id())
  truncateSync(client.path)
  await client.connect()
  await client.last('(snapshot)')
  t.same(client.said(), ['(gap 0)', '(rotated)', '(snapshot)'], 'the other file has the same bytes')
  await client.cut()
  for (const odd of ['x', '1@2', `${idOf(place, place)},${idOf(place, undefined)}`, ',', '-1@1:1;1;1']) {
    t.same(placesOf(odd), [], odd)
    await client.connect(odd)
    await client.last('(snapshot)')
    t.same(client.said(), ['(snapshot)'], odd)
    await client.cut()
  }
})

t.test('tells every line once over any cuts and rotations', async t => {
  const random = createRandom(7)
  const client = clientOf(t, '')
  await client.connect()
  await client.last('(snapshot)')
  client.said()
  const told: string[] = []
  let count = 0
  for (let round = 0; round < 30; round++) {
    if (random.below(2) === 0) await client.cut()
    for (let steps = random.below(3); steps >= 0; steps--) {
      for (let lines = 1 + random.below(5); lines > 0; lines--) client.append(`line ${count++}\n`)
      if (random.below(3) === 0) {
        for (let number = 8; number >= 1; number--)
          try {
            renameSync(`${client.path}.${number}`, `${client.path}.${number + 1}`)
          } catch {
            // There are fewer files.
          }
        renameSync(client.path, `${client.path}.1`)
        writeFileSync(client.path, `line ${count++}\n`)
      }
    }
    await client.cut()
    await client.connect()
    await client.last(`line ${count - 1}`)
    told.push(...client.said().filter(word => !word.startsWith('(')))
  }
  t.strictSame(
    told,
    Array.from({ length: count }, (_, index) => `line ${index}`)
  )
})

const names: Array<[log: string, name: string, number: number | null | undefined]> = [
  ['app.log', 'app.log', undefined],
  ['app.log', 'app.log.1', 1],
  ['app.log', 'app.log.12.gz', 12],
  ['app.log', 'app.log-20260131', null],
  ['app.log', 'app.log-20260131.gz', null],
  ['app.log', 'app.log.20260131', null],
  ['app.log', 'app-20260131.log', null],
  ['app.log', 'app__2026-01-31_00-00-10.log', null],
  ['app.log', 'app.2026-01-31T10:00:00Z.log.gz', null],
  ['app.log', 'app.3.log', null],
  ['app', 'app.1', 1],
  ['app.log', 'app.log.gz', undefined],
  ['app.log', 'app.log.bak', undefined],
  ['app.log', 'app-error.log', undefined],
  ['app.log', 'app2.log', undefined],
  ['app.log', 'app.log.1.swp', undefined],
  ['app.log', 'other.log.1', undefined]
]

for (const [log, name, number] of names) {
  t.test(`"${name}" is ${number === undefined ? 'no' : 'a'} rotated file of "${log}"`, async t => {
    t.equal(rotationOf(log, name), number)
  })
}

const openLog = createOpenLog({ deny: createDeny([]), secrets: [] })

/** Files of a log, the oldest first, and what is found between the first and the last of them. */
async function find(t: Test, files: string[], { seconds = [] as number[], told = [] as string[] } = {}) {
  const directory = t.testdir({})
  const at = (name: string): string => join(directory, name)
  for (const [index, name] of files.entries()) {
    writeFileSync(at(name), name)
    const time = seconds[index] ?? 1_800_000_000 + index
    utimesSync(at(name), time, time)
  }
  const statOf = (name: string | undefined) => statSync(at(name as string), { bigint: true })
  const identityOf = (name: string | undefined): string => `${statOf(name).dev}:${statOf(name).ino}`
  const query = {
    path: at('app.log'),
    after: { identity: identityOf(files[0]), mtimeMs: Number(statOf(files[0]).mtimeMs) },
    before: { identity: identityOf(files.at(-1)), birthMs: Infinity },
    sinceMs: 0,
    told: new Set(told.map(identityOf))
  }
  return {
    at,
    query,
    async between(more: Partial<typeof query> = {}) {
      const { files, isGap, lostBytes } = await filesBetween(openLog, { ...query, ...more })
      const found: string[] = []
      for (const { handle, path } of files) {
        found.push(await readFile(path, 'utf8'))
        await handle.close()
      }
      return { found, isGap, lostBytes }
    }
  }
}

const nothingLost = { isGap: false, lostBytes: 0 }

t.test('orders numbered files by their numbers, whatever their times say', async t => {
  const files = ['app.log.3', 'app.log.2', 'app.log.1', 'app.log']
  const { between } = await find(t, [...files, 'app.log'].slice(0, 4), { seconds: [5, 5, 4, 6] })
  t.same(await between(), { found: ['app.log.2', 'app.log.1'], ...nothingLost })
})

t.test('orders dated files by their times, and leaves out older, younger and told ones', async t => {
  const files = ['app-20260131.log', 'app-20260132.log', 'app-20260133.log', 'app.log']
  const { between } = await find(t, files)
  t.same(await between(), { found: ['app-20260132.log', 'app-20260133.log'], ...nothingLost })
  t.same(await between({ sinceMs: Date.now() + 60_000 }), { found: [], ...nothingLost }, 'they existed before')
  t.same(await between({ before: { identity: 'none', birthMs: 0 } }), { found: [], ...nothingLost }, 'made later')
  const told = await find(t, files, { told: ['app-20260132.log'] })
  t.same(await told.between(), { found: ['app-20260133.log'], ...nothingLost })
})

t.test('a number that is missing is a gap', async t => {
  const { between, at } = await find(t, ['app.log.4', 'app.log.3', 'app.log.2', 'app.log.1', 'app.log'])
  unlinkSync(at('app.log.2'))
  t.same(await between(), { found: ['app.log.3', 'app.log.1'], isGap: true, lostBytes: 0 })
})

t.test('a file that svc must not read is a gap of its size', async t => {
  const { query, at } = await find(t, ['app.log.2', 'app.log.1', 'app.log'])
  const denied = createOpenLog({ deny: createDeny([at('app.log.1')]), secrets: [] })
  t.same(await filesBetween(denied, query), { files: [], isGap: true, lostBytes: 'app.log.1'.length })
})

const kilobyte = 1024

async function ranges(t: Test, text: string | Buffer, maxLines: number) {
  const path = join(t.testdir({}), 'app.log')
  writeFileSync(path, text)
  const handle = await open(path)
  t.teardown(() => handle.close())
  const size = Buffer.byteLength(text)
  const shown = ({ start, end }: { start: number; end: number }): string =>
    Buffer.from(text).subarray(start, end).toString()
  const query = { handle, size, maxLines }
  const [head, tail] = [await rangeOfHead(query), await rangeOfTail(query)]
  return { head, tail, headText: shown(head), tailText: shown(tail), size }
}

const long = `${'x'.repeat(100 * kilobyte)}\n`
const cases: Array<[what: string, text: string, maxLines: number, head: string, tail: string]> = [
  ['an empty file', '', 5, '', ''],
  ['fewer lines than asked for', 'one\ntwo\n', 5, 'one\ntwo\n', 'one\ntwo\n'],
  ['as many lines as asked for', 'one\ntwo\n', 2, 'one\ntwo\n', 'one\ntwo\n'],
  ['more lines', 'one\ntwo\nthree\n', 2, 'one\ntwo\n', 'two\nthree\n'],
  ['an incomplete last line', 'one\ntwo\nthr', 2, 'one\ntwo\n', 'two\nthr'],
  ['no lines', 'one\ntwo\n', 0, 'one\n', ''],
  ['lines of more than a block', long + long + long, 2, long + long, long + long],
  ['empty lines', '\n\n\n\n', 2, '\n\n', '\n\n']
]

for (const [what, text, maxLines, head, tail] of cases) {
  t.test(`finds the first and the last lines: ${what}`, async t => {
    const found = await ranges(t, text, maxLines)
    t.ok(found.headText === head)
    t.ok(found.tailText === tail)
  })
}

t.test('begins with a whole line within 2 MiB of the end, or with a character', async t => {
  const lines = await ranges(t, long.repeat(30), 1000)
  t.equal(lines.tail.start % long.length, 0)
  t.ok(lines.size - lines.tail.start <= 2048 * kilobyte)
  t.ok(lines.size - lines.tail.start > 1900 * kilobyte)
  const endless = await ranges(t, '€'.repeat(1000 * kilobyte), 1000)
  t.equal(endless.tail.start % 3, 0)
  t.ok(endless.tail.start > 0)
})

t.test('shows nothing of a binary file, and recognizes a file by the bytes before the range', async t => {
  const binary = await ranges(t, `${'\x01\x02\x03'.repeat(50)}\n`, 10)
  t.match(binary.tail, { isBinary: true, start: 151, end: 151 })
  t.equal(binary.tail.mark.length, 151)
  const { tail } = await ranges(t, 'one\ntwo\nthree\n', 1)
  t.equal(tail.mark.toString(), 'one\ntwo\n')
})
