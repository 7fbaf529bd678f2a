import {
  appendFileSync,
  copyFileSync,
  readFileSync,
  renameSync,
  truncateSync,
  unlinkSync,
  writeFileSync
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { systemClock } from '../../../lib/base/clock.js'
import { createDeny } from '../../../lib/logs/read/deny.js'
import { createInflatedFiles } from '../../../lib/logs/read/inflated.js'
import { createOpenLog } from '../../../lib/logs/read/open.js'
import { idOf, placesOf } from '../../../lib/logs/tail/resume.js'
import { createSharedLooks } from '../../../lib/logs/tail/shared-looks.js'
import { followLog } from '../../../lib/logs/tail/tail.js'
import { createFileWatcher } from '../../../lib/logs/tail/watch.js'
import { createRandom } from '../../support/random.js'
import { until } from '../../support/until.js'

t.jobs = 8

/** A log, and a client that loses its connection and continues after the last id. */
function clientOf(t: Test, before: string) {
  const directory = t.testdir({ 'app.log': before })
  const path = join(directory, 'app.log')
  const needs = {
    openLog: createOpenLog({ deny: createDeny([]), secrets: [] }),
    inflated: createInflatedFiles({ tmp: directory }),
    watcher: createFileWatcher(),
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
