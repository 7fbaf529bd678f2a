import {
  appendFileSync,
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
  writeSync
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { systemClock } from '../../../../lib/base/clock.js'
import { createInflatedFiles } from '../../../../lib/operate/logs/read/contents.js'
import { createOpenLog, createDeny } from '../../../../lib/operate/logs/read/open.js'
import { FileWatcher, createSharedLooks } from '../../../../lib/operate/logs/tail/watch.js'
import { followLog, type SnapshotEvent, type TailEvent } from '../../../../lib/operate/logs/tail/tail.js'
import { createRandom } from '../../../support/random.js'
import { until } from '../../../support/until.js'

t.jobs = 8

type Got = Exclude<TailEvent, SnapshotEvent> | { event: 'snapshot'; data: { lines: string[] } & SnapshotEvent['data'] }

/** Takes the lines of a snapshot. */
async function taken(event: TailEvent): Promise<Got> {
  if (event.event !== 'snapshot') return event
  const lines: string[] = []
  for await (const some of event.lines) lines.push(...some)
  return { event: 'snapshot', data: { ...event.data, lines } }
}

/** A followed file, and the events that its follower got. */
async function follow(
  t: Test,
  { before = '', tailLines = 200, slowMs = 0, accept = async (_: Got): Promise<void> => {} } = {}
) {
  const directory = t.testdir({})
  const path = join(directory, 'app.log')
  if (before !== '') writeFileSync(path, before)
  const watcher = new FileWatcher()
  const controller = new AbortController()
  const events: Got[] = []
  const needs = {
    openLog: createOpenLog({ deny: createDeny([]), secrets: [] }),
    inflated: createInflatedFiles({ tmp: directory }),
    watcher,
    looks: createSharedLooks(),
    clock: systemClock
  }
  const over = followLog(needs, { filePath: path, tailLines, batchMs: 50, signal: controller.signal }, async event => {
    if (slowMs > 0) await sleep(slowMs)
    const got = await taken(event)
    events.push(got)
    await accept(got)
  }).catch(error => {
    if (!controller.signal.aborted) throw error
  })
  t.teardown(async () => {
    controller.abort(new Error('over'))
    await over
    watcher.close()
    await needs.inflated.close()
  })
  const lines = (): string[] =>
    events.flatMap(({ event, data }) => (event === 'snapshot' || event === 'lines' ? data.lines : []))
  return {
    path,
    events,
    lines,
    kinds: () => events.map(({ event }) => event),
    until: (isSo: () => boolean, what: string) =>
      until(isSo, { what: () => `${what}: ${JSON.stringify(events.slice(-6))}` }),
    append: (text: string) => appendFileSync(path, text)
  }
}

t.test('sends each of many followers every line once and in order, while others join, leave and are slow', async t => {
  const random = createRandom(4)
  const directory = t.testdir({ 'app.log': '' })
  const filePath = join(directory, 'app.log')
  const needs = {
    openLog: createOpenLog({ deny: createDeny([]), secrets: [] }),
    inflated: createInflatedFiles({ tmp: directory }),
    watcher: new FileWatcher(),
    looks: createSharedLooks(),
    clock: systemClock
  }
  const begin = () => {
    const leaving = new AbortController()
    const lines: string[] = []
    const slowMs = random.oneOf([0, 0, 0, 30])
    const over = followLog(needs, { filePath, tailLines: 5000, batchMs: 5, signal: leaving.signal }, async given => {
      if (slowMs > 0) await sleep(slowMs)
      const { event, data } = await taken(given)
      if (event === 'snapshot' || event === 'lines') lines.push(...data.lines)
    }).catch(error => {
      if (!leaving.signal.aborted) throw error
    })
    return { leaving, lines, over }
  }
  const followers = Array.from({ length: 40 }, begin)
  const wanted: string[] = []
  for (let round = 0; round < 150; round++) {
    const lines = random.some(5, () => `${wanted.length} ${'x'.repeat(random.below(3000))}`)
    if (lines.length > 0) appendFileSync(filePath, `${lines.join('\n')}\n`)
    wanted.push(...lines)
    if (round % 10 === 0) followers.splice(random.below(followers.length), 1)[0]?.leaving.abort(new Error('left'))
    if (round % 10 === 5) followers.push(begin())
    await sleep(random.below(4))
  }
  for (const { lines } of followers) {
    await until(() => lines.length >= wanted.length)
    t.strictSame(lines, wanted)
  }
  for (const { leaving } of followers) leaving.abort(new Error('over'))
  await Promise.all(followers.map(({ over }) => over))
  needs.watcher.close()
  await needs.inflated.close()
})

t.test('handles lines in pieces, with CRLF, and with characters cut anywhere', async t => {
  const log = await follow(t, { before: 'one\n' })
  await log.until(() => log.events.length === 1, 'snapshot')
  for (const byte of Buffer.from('zwei ä€😀\r\ndrei\n')) {
    appendFileSync(log.path, Buffer.from([byte]))
    await sleep(2)
  }
  await log.until(() => log.lines().length === 3, 'three lines')
  t.same(log.lines(), ['one', 'zwei ä€😀', 'drei'])
})

t.test('shows an incomplete last line in the snapshot, and then what completes it', async t => {
  const log = await follow(t, { before: 'one\ntwo' })
  await log.until(() => log.events.length === 1, 'snapshot')
  log.append('\nthree\n')
  await log.until(() => log.lines().includes('three'), 'three')
  t.same(log.lines(), ['one', 'two', 'three'])
})

const rotations: Record<string, (path: string) => void> = {
  'renamed and recreated': path => {
    renameSync(path, `${path}.1`)
    writeFileSync(path, '')
  },
  'renamed and recreated with lines': path => {
    renameSync(path, `${path}.1`)
    writeFileSync(path, 'new 0\n')
  },
  'copied and truncated': path => {
    copyFileSync(path, `${path}.1`)
    truncateSync(path, 0)
  },
  'truncated, and grown past the old size at once': path =>
    writeFileSync(path, Array.from({ length: 500 }, (_, n) => `grown ${n}\n`).join('')),
  'deleted and recreated': path => {
    unlinkSync(path)
    writeFileSync(path, 'again\n')
  }
}

for (const [how, rotate] of Object.entries(rotations)) {
  t.test(`shows a rotation and a snapshot without losing or repeating a line: ${how}`, async t => {
    const log = await follow(t, { before: 'before\n' })
    await log.until(() => log.events.length === 1, 'snapshot')
    log.append('last of the old\n')
    await log.until(() => log.lines().includes('last of the old'), 'the last old line')
    rotate(log.path)
    await log.until(() => log.kinds().includes('rotated'), 'rotated')
    log.append('first of the new\n')
    await log.until(() => log.lines().includes('first of the new'), 'the first new line')
    const kinds = log.kinds()
    t.equal(kinds[kinds.indexOf('rotated') + 1], 'snapshot')
    t.equal(kinds.filter(kind => kind === 'rotated').length, 1)
    const lines = log.lines()
    t.equal(new Set(lines).size, lines.length, 'nothing twice')
    if (how.includes('grown')) t.equal(lines.filter(line => line.startsWith('grown')).length, 500)
    t.match(log.events.find(({ event }) => event === 'rotated')?.data, { at: /^\d{4}-.*Z$/ })
  })
}

t.test('reports that lines may be lost if the file was truncated without a copy', async t => {
  const log = await follow(t, { before: 'one\n' })
  await log.until(() => log.events.length === 1, 'snapshot')
  truncateSync(log.path, 0)
  await log.until(() => log.kinds().includes('rotated'), 'rotated')
  t.same(log.kinds(), ['snapshot', 'gap', 'rotated', 'snapshot'])
  t.same(log.events[1]?.data, { bytes: 0 })
})

t.test('reports how much is lost at least if the file was truncated while a follower lagged behind', async t => {
  let goOn = (): void => {}
  const waiting = new Promise<void>(resolve => (goOn = resolve))
  const log = await follow(t, {
    before: 'one\n',
    accept: async ({ event }) => {
      if (event === 'lines') await waiting
    }
  })
  await log.until(() => log.events.length === 1, 'snapshot')
  const text = Array.from({ length: 60_000 }, (_, n) => `line ${n}\n`).join('')
  log.append(text)
  await log.until(() => log.kinds().includes('lines'), 'the first block')
  truncateSync(log.path, 0)
  goOn()
  await log.until(() => log.kinds().includes('rotated'), 'rotated')
  const gap = log.events.find(event => event.event === 'gap')
  const shown = log.lines().slice(1).join('\n').length
  const { bytes } = gap!.data as { bytes: number }
  t.ok(bytes > text.length / 2)
  // A line that was cut off has no newline.
  t.ok([0, 1].includes(text.length - shown - bytes), `${text.length} - ${shown} - ${bytes}`)
})

t.test('loses nothing and reports nothing if the file was copied and truncated', async t => {
  const log = await follow(t, { before: 'one\n' })
  await log.until(() => log.events.length === 1, 'snapshot')
  copyFileSync(log.path, `${log.path}.1`)
  truncateSync(log.path, 0)
  await log.until(() => log.kinds().includes('rotated'), 'rotated')
  t.same(log.kinds(), ['snapshot', 'rotated', 'snapshot'])
})

t.test('keeps the lines of a writer that continues in the old file for a while', async t => {
  const log = await follow(t, { before: 'one\n' })
  await log.until(() => log.events.length === 1, 'snapshot')
  renameSync(log.path, `${log.path}.1`)
  writeFileSync(log.path, '')
  await log.until(() => log.kinds().includes('rotated'), 'rotated')
  appendFileSync(`${log.path}.1`, 'late\n')
  await log.until(() => log.lines().includes('late'), 'late')
  log.append('new\n')
  await log.until(() => log.lines().includes('new'), 'new')
  t.same(log.lines(), ['one', 'late', 'new'])
})

t.test('sends every line once and in order across renames, with a writer that never stops', async t => {
  const log = await follow(t, { before: 'line 0\n', slowMs: 5 })
  // The first snapshot shows only the last lines of what exists by then.
  await log.until(() => log.events.length === 1, 'snapshot')
  let count = 1
  for (let round = 0; round < 4; round++) {
    for (let step = 0; step < 40; step++) {
      log.append(Array.from({ length: 25 }, () => `line ${count++}\n`).join(''))
      await sleep(1)
    }
    if (round < 3) {
      renameSync(log.path, `${log.path}.${round}`)
      log.append(`line ${count++}\n`)
      await log.until(() => log.kinds().filter(kind => kind === 'rotated').length > round, 'rotated')
    }
  }
  await log.until(() => log.lines().length >= count, 'all lines')
  t.same(
    log.lines(),
    Array.from({ length: count }, (_, n) => `line ${n}`)
  )
})

t.test('treats a changed link as a rotation', async t => {
  const log = await follow(t)
  await log.until(() => log.kinds().includes('error'), 'the file does not exist yet')
  writeFileSync(`${log.path}.a`, 'a\n')
  writeFileSync(`${log.path}.b`, 'b\n')
  symlinkSync(`${log.path}.a`, log.path)
  await log.until(() => log.lines().includes('a'), 'a')
  appendFileSync(`${log.path}.a`, 'a2\n')
  await log.until(() => log.lines().includes('a2'), 'a2')
  symlinkSync(`${log.path}.b`, `${log.path}.next`)
  renameSync(`${log.path}.next`, log.path)
  await log.until(() => log.lines().includes('b'), 'b')
  t.same(log.kinds(), ['error', 'snapshot', 'lines', 'rotated', 'snapshot'])
})

t.test('reports a missing file, and continues when it is back', async t => {
  const log = await follow(t, { before: 'one\n' })
  await log.until(() => log.events.length === 1, 'snapshot')
  unlinkSync(log.path)
  await log.until(() => log.kinds().includes('error'), 'error')
  writeFileSync(log.path, 'back\n')
  await log.until(() => log.lines().includes('back'), 'back')
  // After a while without a look, lines may have been lost.
  const kinds = log.kinds().filter(kind => kind !== 'gap')
  t.same(kinds, ['snapshot', 'error', 'rotated', 'snapshot'])
})

t.test('shows an empty snapshot and no lines for a binary file', async t => {
  const log = await follow(t, { before: '\x01\x02\x00\x03\n' })
  await log.until(() => log.events.length === 1, 'snapshot')
  t.match(log.events[0]?.data, { binary: true, lines: [] })
})

t.test('counts whole lines for tailLines', async t => {
  const log = await follow(t, {
    before: Array.from({ length: 20_000 }, (_, n) => `line ${n}\n`).join(''),
    tailLines: 5000
  })
  await log.until(() => log.events.length === 1, 'snapshot')
  t.equal(log.lines().length, 5000)
  t.equal(log.lines()[0], 'line 15000')
})

/** A follower that stops after the first line, and a function that lets it continue. */
async function stopped(t: Test) {
  let goOn = (): void => {}
  const waiting = new Promise<void>(resolve => (goOn = resolve))
  const log = await follow(t, {
    before: 'first\n',
    accept: async ({ event }) => {
      if (event === 'lines') await waiting
    }
  })
  await log.until(() => log.events.length === 1, 'snapshot')
  log.append('second\n')
  await log.until(() => log.kinds().includes('lines'), 'the second line')
  return { ...log, goOn }
}

/** Renames `app.log.1` to `app.log.2` and so on, up to `kept` files. */
function shift(path: string, kept: number): void {
  for (let number = kept; number >= 1; number--) {
    const from = number === 1 ? path : `${path}.${number - 1}`
    if (existsSync(from)) renameSync(from, `${path}.${number}`)
  }
}

t.test('sends the lines of every file if the log was rotated several times while a follower was slow', async t => {
  const log = await stopped(t)
  for (const name of ['b', 'c', 'd']) {
    log.append(`last before ${name}\n`)
    shift(log.path, 9)
    log.append(`${name}\n`)
  }
  log.goOn()
  await log.until(() => log.lines().includes('d'), 'the newest file')
  t.same(log.lines(), ['first', 'second', 'last before b', 'b', 'last before c', 'c', 'last before d', 'd'])
  t.notOk(log.kinds().includes('gap'))
  log.append('more\n')
  await log.until(() => log.lines().includes('more'), 'more')
})

t.test('reports a gap if the followed file is gone, so that nobody knows what followed it', async t => {
  const log = await stopped(t)
  for (const name of ['b', 'c', 'd']) {
    shift(log.path, 2)
    log.append(`${name}\n`)
  }
  log.goOn()
  await log.until(() => log.lines().includes('d'), 'the newest file')
  t.same(log.lines(), ['first', 'second', 'b', 'c', 'd'])
  t.equal(log.kinds().filter(kind => kind === 'gap').length, 1)
})

t.test('continues after the followed file was compressed', async t => {
  const log = await stopped(t)
  log.append('last\n')
  shift(log.path, 9)
  log.append('b\n')
  writeFileSync(`${log.path}.1.gz`, gzipSync(readFileSync(`${log.path}.1`)))
  const { atime, mtime } = statSync(`${log.path}.1`)
  utimesSync(`${log.path}.1.gz`, atime, mtime)
  unlinkSync(`${log.path}.1`)
  log.goOn()
  await log.until(() => log.lines().includes('b'), 'the newest file')
  t.same(log.lines(), ['first', 'second', 'last', 'b'])
  t.notOk(log.kinds().includes('gap'))
})

t.test('sends the lines of every copy if the log was copied and truncated several times', async t => {
  const log = await stopped(t)
  for (const name of ['b', 'c', 'd']) {
    log.append(`last before ${name}\n`)
    if (existsSync(`${log.path}.2`)) renameSync(`${log.path}.2`, `${log.path}.3`)
    if (existsSync(`${log.path}.1`)) renameSync(`${log.path}.1`, `${log.path}.2`)
    copyFileSync(log.path, `${log.path}.1`)
    truncateSync(log.path, 0)
    log.append(`${name}\n`)
  }
  log.goOn()
  await log.until(() => log.lines().includes('d'), 'the newest lines')
  t.same(log.lines(), ['first', 'second', 'last before b', 'b', 'last before c', 'c', 'last before d', 'd'])
  t.notOk(log.kinds().includes('gap'))
})

t.test('shows a large new file from its start', async t => {
  const log = await stopped(t)
  const large = `${'x'.repeat(999)}\n`.repeat(17_000)
  renameSync(log.path, `${log.path}.1`)
  log.append(`new\n${large}`)
  log.goOn()
  await log.until(() => log.lines().length === 17_003, 'all lines')
  t.notOk(log.kinds().includes('gap'))
})

t.test('sends all lines of a truncated file, although the snapshot shows only the first', async t => {
  const log = await follow(t, { before: 'one\ntwo\nthree\n', tailLines: 0 })
  await log.until(() => log.events.length === 1, 'snapshot')
  writeFileSync(log.path, 'a\nb\nc\n')
  await log.until(() => log.lines().includes('c'), 'the last line')
  t.same(log.lines(), ['a', 'b', 'c'])
})

t.test('leaves out the hole of a writer that continues at its old position', async t => {
  const log = await follow(t, { before: `${'x'.repeat(99)}\n`.repeat(2_000) })
  await log.until(() => log.events.length === 1, 'snapshot')
  const file = openSync(log.path, 'r+')
  copyFileSync(log.path, `${log.path}.1`)
  truncateSync(log.path, 0)
  writeSync(file, 'after 1\n', 200_000)
  await log.until(() => log.lines().includes('after 1'), 'the first line')
  writeSync(file, 'after 2\n', 200_008)
  writeSync(file, 'after 3\n', 400_000)
  closeSync(file)
  await log.until(() => log.lines().includes('after 3'), 'the last line')
  t.same(log.lines().slice(-3), ['after 1', 'after 2', 'after 3'])
  t.notOk(log.lines().some(line => line.includes('\0')))
})
