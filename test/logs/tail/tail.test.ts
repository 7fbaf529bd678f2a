import { appendFileSync, copyFileSync, renameSync, symlinkSync, truncateSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { systemClock } from '../../../lib/base/clock.js'
import { createDeny } from '../../../lib/logs/read/deny.js'
import { createInflatedFiles } from '../../../lib/logs/read/inflated.js'
import { createOpenLog } from '../../../lib/logs/read/open.js'
import { createSharedLooks } from '../../../lib/logs/tail/shared-looks.js'
import { followLog, type TailEvent } from '../../../lib/logs/tail/tail.js'
import { createFileWatcher } from '../../../lib/logs/tail/watch.js'
import { createRandom } from '../../support/random.js'
import { until } from '../../support/until.js'

t.jobs = 8

/** A followed file, and the events that its follower got. */
async function follow(
  t: Test,
  { before = '', tailLines = 200, slowMs = 0, accept = async (_: TailEvent): Promise<void> => {} } = {}
) {
  const directory = t.testdir({})
  const path = join(directory, 'app.log')
  if (before !== '') writeFileSync(path, before)
  const watcher = createFileWatcher()
  const controller = new AbortController()
  const events: TailEvent[] = []
  const needs = {
    openLog: createOpenLog({ deny: createDeny([]), secrets: [] }),
    inflated: createInflatedFiles({ tmp: directory }),
    watcher,
    looks: createSharedLooks(),
    clock: systemClock
  }
  const over = followLog(needs, { filePath: path, tailLines, batchMs: 50, signal: controller.signal }, async event => {
    if (slowMs > 0) await sleep(slowMs)
    events.push(event)
    await accept(event)
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
    watcher: createFileWatcher(),
    looks: createSharedLooks(),
    clock: systemClock
  }
  const begin = () => {
    const leaving = new AbortController()
    const lines: string[] = []
    const slowMs = random.oneOf([0, 0, 0, 30])
    const over = followLog(
      needs,
      { filePath, tailLines: 5000, batchMs: 5, signal: leaving.signal },
      async ({ event, data }) => {
        if (slowMs > 0) await sleep(slowMs)
        if (event === 'snapshot' || event === 'lines') lines.push(...data.lines)
      }
    ).catch(error => {
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
  t.same(log.kinds(), ['snapshot', 'error', 'rotated', 'snapshot'])
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
