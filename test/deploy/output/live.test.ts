import t from 'tap'
import type { Test } from 'tap'
import { readFile, rename, rm } from 'node:fs/promises'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { appendFileSync, writeFileSync } from 'node:fs'
import { getEventListeners } from 'node:events'
import { systemClock } from '../../../lib/base/clock.js'
import { StopRequest } from '../../../lib/deploy/failure.js'
import { createLive, createSharedReads, followOutput, openWindow } from '../../../lib/deploy/output/live.js'
import { openOutput } from '../../../lib/deploy/output/output.js'
import { linesOf, type StoredBlock } from '../../../lib/deploy/output/stored-output.js'
import type { DeploymentRow } from '../../../lib/model/deployment.js'
import { never } from '../../support/deploy-stage.js'
import { createRandom } from '../../support/random.js'

async function liveStage(t: Test) {
  const path = join(t.testdir({}), 'dep.log')
  const live = createLive()
  const output = await openOutput({ path, clock: systemClock, onWritten: () => live.find('dep_1')?.wake() })
  const run = live.begin({ deployId: 'dep_1', projectId: 'proj_1', output })
  const follow = async (from = 0, paceMs = 0, signal = never): Promise<{ texts: string[]; last: number }> => {
    const texts: string[] = []
    let last = from
    for await (const block of followOutput(live, { deployId: 'dep_1', path, from, signal })) {
      for (const { line, nextOffset } of linesOf(block)) {
        texts.push(line.text)
        last = nextOffset
      }
      if (paceMs > 0) await sleep(paceMs)
    }
    return { texts, last }
  }
  return { live, output, path, run, follow }
}

const row = { id: 'dep_1', status: 'success' } as DeploymentRow

t.test('every follower gets each line once, early or late, fast or slow', async t => {
  const { output, run, follow } = await liveStage(t)
  const random = createRandom(7)
  const wanted = Array.from({ length: 300 }, (_, index) => `line ${index}`)
  const followers = [follow(), follow(0, 1)]
  for (const text of wanted.slice(0, 150)) {
    output.line(text)
    if (random.below(5) === 0) await sleep(1)
  }
  followers.push(follow(), follow(1e9))
  for (const text of wanted.slice(150)) {
    output.line(text)
    if (random.below(5) === 0) await sleep(1)
  }
  await output.flush()
  run.end(row)
  followers.push(follow())
  for (const { texts } of await Promise.all(followers)) t.strictSame(texts, wanted)
})

t.test('every follower of a busy output gets each line once and in order', async t => {
  const random = createRandom(20)
  const { output, path, run, follow } = await liveStage(t)
  const offsets = [0]
  const wanted: string[] = []
  const followers: Array<{ fromLine: number; got: ReturnType<typeof follow> }> = []
  const print = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) {
      const text = `${wanted.length} ${'ä'.repeat(random.below(120))}`
      wanted.push(text)
      offsets.push((offsets.at(-1) as number) + 26 + Buffer.byteLength(text))
      await output.line(text)
    }
    if (random.below(2) === 0) await output.flush()
    else await turn()
  }
  for (let round = 0; round < 60; round++) {
    await print(random.below(400))
    if (round % 3 !== 0) continue
    // Some resume after a written line, some begin at the start, some are slow.
    const written = offsets.filter(offset => offset <= output.recent.end).length - 1
    const fromLine = random.oneOf([0, written, random.below(written + 1)])
    const { signal } = new AbortController()
    followers.push({ fromLine, got: follow(offsets[fromLine], random.oneOf([0, 0, 1, 10]), signal) })
  }
  await output.flush()
  run.end(row)
  for (const [index, { fromLine, got }] of followers.entries()) {
    t.strictSame((await got).texts, wanted.slice(fromLine), `follower ${index}, from line ${fromLine}`)
  }
  t.equal((await readFile(path)).length, offsets.at(-1))
})

t.test('followers at the end share a block and read no file', async t => {
  const { live, output, path, run } = await liveStage(t)
  const blocks = (): AsyncGenerator<StoredBlock> =>
    followOutput(live, { deployId: 'dep_1', path, from: 0, signal: new AbortController().signal })
  output.say('one')
  await output.flush()
  const followers = Array.from({ length: 20 }, blocks)
  await Promise.all(followers.map(follower => follower.next()))
  const next = followers.map(follower => follower.next())
  output.say('two')
  await output.flush()
  await rename(path, `${path}.gone`)
  const given = await Promise.all(next)
  t.equal(new Set(given.map(({ value }) => value)).size, 1)
  t.match((given[0] as { value: StoredBlock }).value.bytes.toString(), / two\n$/)
  run.end(row)
})

t.test('a follower that is behind reads the file and uses no memory', async t => {
  const { output, run, follow } = await liveStage(t)
  const line = 'x'.repeat(1000)
  const reading = follow(0, 5)
  for (let n = 0; n < 4000; n++) await output.line(line)
  await output.flush()
  t.equal(output.recent.at(0), null, 'the first lines are no longer kept')
  let kept = 0
  for (let at = output.recent.end - 1026; output.recent.at(at) !== null; at -= 1026) kept += 1026
  t.ok(kept <= 320 * 1024, `${kept} bytes are kept`)
  run.end(row)
  t.equal((await reading).texts.length, 4000)
})

t.test('waking thousands of followers does not block other work', async t => {
  const { output, run } = await liveStage(t)
  let woken = 0
  const untilMs = (): number => performance.now() + 0.1
  const followers = Array.from({ length: 1000 }, async () => {
    await run.woken(run.wakes, new AbortController().signal)
    for (const until = untilMs(); performance.now() < until; );
    woken++
  })
  const seen: number[] = []
  const other = setInterval(() => seen.push(woken), 1)
  output.say('a')
  await output.flush()
  await Promise.all(followers)
  clearInterval(other)
  t.ok(
    seen.some(count => count > 0 && count < 1000),
    `a timer saw ${seen.join(', ')} of 1000`
  )
})

t.test('resumes after any line', async t => {
  const { output, run, follow } = await liveStage(t)
  output.say('a')
  output.say('b')
  await output.flush()
  const offset = (await output.flush(), 2 * 27)
  const rest = follow(offset)
  output.say('c')
  await output.flush()
  run.end(row)
  t.strictSame((await rest).texts, ['c'])
  t.strictSame((await follow(27)).texts, ['b', 'c'])
  t.equal((await follow()).last, 3 * 27)
})

t.test('an abort throws its reason, even while waiting', async t => {
  const { follow, output } = await liveStage(t)
  const stopping = new AbortController()
  const reason = new Error('client went away')
  output.say('a')
  const following = follow(0, 0, stopping.signal)
  await sleep(20)
  stopping.abort(reason)
  await t.rejects(following, reason)
  await t.rejects(follow(0, 0, stopping.signal), reason)
})

t.test('a finished run is found, but not running', async t => {
  const { live, run } = await liveStage(t)
  t.ok(live.hasRunning('proj_1'))
  t.notOk(live.hasRunning('proj_2'))
  run.end(row)
  t.notOk(live.hasRunning('proj_1'))
  t.equal(live.find('dep_1'), run)
  t.equal(await run.finished, row)
  live.forget('dep_1')
  t.equal(live.find('dep_1'), undefined)
  t.strictSame(live.all(), [])
})

t.test('followers of a run that was never recorded end', async t => {
  const { live, follow, output } = await liveStage(t)
  output.say('a')
  const following = follow()
  await sleep(20)
  live.forget('dep_1')
  t.strictSame((await following).texts, ['a'])
})

t.test('only the first request to stop has an effect', async t => {
  const { run } = await liveStage(t)
  run.stop(new StopRequest('cancel', 'first'))
  run.stop(new StopRequest('stop', 'second'))
  t.match(run.signal.reason, { message: 'first', by: 'cancel' })
})

t.test('reads a block once for many followers', async t => {
  const path = join(t.testdir({ 'a.log': 'one\ntwo\n', 'b.log': 'other\n' }), 'a.log')
  const reads = createSharedReads()
  const blocks = await Promise.all(Array.from({ length: 50 }, () => reads.read(path, 0, Infinity)))
  t.equal(new Set(blocks).size, 1)
  t.equal(blocks[0]?.bytes.toString(), 'one\ntwo\n')
  t.equal((await reads.read(path, 4, Infinity))?.bytes.toString(), 'two\n', 'another offset')
  t.equal((await reads.read(join(path, '../b.log'), 0, Infinity))?.bytes.toString(), 'other\n', 'another file')
})

t.test('returns nothing beyond the given end, and reads the end again', async t => {
  const path = join(t.testdir({ 'a.log': 'one\ntwo\n' }), 'a.log')
  const reads = createSharedReads()
  t.equal((await reads.read(path, 0, 4))?.bytes.toString(), 'one\n')
  t.equal(await reads.read(path, 8, Infinity), null)
  appendFileSync(path, 'three\n')
  t.equal((await reads.read(path, 8, Infinity))?.bytes.toString(), 'three\n')
  t.match((await reads.read(`${path}.none`, 0, Infinity))?.bytes.toString(), /the output is lost/)
  writeFileSync(`${path}.none`, 'now\n')
  t.equal((await reads.read(`${path}.none`, 0, Infinity))?.bytes.toString(), 'now\n')
})

t.test('completes many different reads and keeps few blocks', async t => {
  const path = join(t.testdir({ 'a.log': 'line\n'.repeat(100) }), 'a.log')
  const reads = createSharedReads()
  const blocks = await Promise.all(Array.from({ length: 100 }, (_, line) => reads.read(path, line * 5, line * 5 + 5)))
  t.ok(blocks.every(block => block?.bytes.toString() === 'line\n'))
  await rm(path)
  const kept = await Promise.all(Array.from({ length: 100 }, (_, line) => reads.read(path, line * 5, line * 5 + 5)))
  t.ok(kept.filter(block => block !== null).length <= 8)
})

t.test('does not cache the line that says that the file is lost', async t => {
  const directory = t.testdir({ 'a.log': {} })
  const reads = createSharedReads()
  const path = join(directory, 'a.log')
  t.match((await reads.read(path, 0, Infinity))?.bytes.toString(), /the output is lost: .* is not a file/)
  await rm(path, { recursive: true })
  writeFileSync(path, 'now\n')
  t.equal((await reads.read(path, 0, Infinity))?.bytes.toString(), 'now\n')
})

const neverAborted = new AbortController().signal
const recorded = async (): Promise<void> => {}

t.test('ends confirmed, or when its time has passed', async t => {
  const confirmed = openWindow({ ms: 60_000, nowMs: 0 })
  t.equal(confirmed.until, '1970-01-01T00:01:00.000Z')
  const decided = confirmed.decided(neverAborted)
  t.ok(await confirmed.confirm(recorded))
  t.ok(await confirmed.confirm(recorded), 'again')
  t.ok(await decided)
  const missed = openWindow({ ms: 20, nowMs: 0 })
  t.notOk(await missed.decided(neverAborted))
  t.notOk(await missed.confirm(recorded), 'too late')
  t.notOk(await openWindow({ ms: -5, nowMs: 0 }).decided(neverAborted), 'a window that has already ended')
})

t.test('a change of the clock does not affect it', async t => {
  const now = Date.now
  t.teardown(() => (Date.now = now))
  const window = openWindow({ ms: 60_000, nowMs: Date.now() })
  const decided = window.decided(neverAborted)
  Date.now = () => now() + 3_600_000
  await new Promise(resolve => setTimeout(resolve, 20))
  t.ok(await window.confirm(recorded), 'the clock was set forward')
  t.ok(await decided)
})

t.test('an abort rejects with its reason, unless the confirmation came first', async t => {
  const stop = new AbortController()
  const aborted = openWindow({ ms: 60_000, nowMs: 0 })
  const decided = aborted.decided(stop.signal)
  stop.abort(new Error('cancelled'))
  await t.rejects(decided, { message: 'cancelled' })
  t.notOk(await aborted.confirm(recorded))
  t.equal(getEventListeners(stop.signal, 'abort').length, 0)
  const first = openWindow({ ms: 60_000, nowMs: 0 })
  await first.confirm(recorded)
  t.ok(await first.decided(stop.signal))
})

t.test('a confirmation waits until it is recorded, and is none if that fails', async t => {
  for (const isRecorded of [true, false]) {
    const window = openWindow({ ms: 20, nowMs: 0 })
    let end = (): void => {}
    const recording = new Promise<void>((resolve, reject) => (end = isRecorded ? resolve : () => reject(Error('full'))))
    const confirmed = window.confirm(() => recording)
    const state: string[] = []
    const decided = window.decided(neverAborted).then(is => state.push(`decided: ${is}`))
    await new Promise(resolve => setTimeout(resolve, 60))
    t.strictSame(state, [], 'its time has passed, and it waits')
    end()
    if (isRecorded) t.ok(await confirmed)
    else await t.rejects(confirmed, { message: 'full' })
    await decided
    t.strictSame(state, [`decided: ${isRecorded}`])
  }
})
