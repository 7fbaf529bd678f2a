import t, { type Test } from 'tap'
import { setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { systemClock } from '../../lib/base/clock.js'
import { StopRequest } from '../../lib/deploy/failure.js'
import { createLive, followOutput } from '../../lib/deploy/live.js'
import { openOutput } from '../../lib/deploy/output.js'
import type { DeploymentRow } from '../../lib/model/deployment.js'
import { never } from '../support/deploy-stage.js'

async function liveStage(t: Test) {
  const path = join(t.testdir({}), 'dep.log')
  const live = createLive()
  const output = await openOutput({ path, clock: systemClock, onWritten: () => live.find('dep_1')?.wake() })
  const run = live.begin({ deployId: 'dep_1', projectId: 'proj_1', output })
  const follow = async (from = 0, paceMs = 0, signal = never): Promise<{ texts: string[]; last: number }> => {
    const texts: string[] = []
    let last = from
    for await (const { line, nextOffset } of followOutput(live, { deployId: 'dep_1', path, from, signal })) {
      texts.push(line.text)
      last = nextOffset
      if (paceMs > 0) await sleep(paceMs)
    }
    return { texts, last }
  }
  return { live, output, run, follow }
}

const row = { id: 'dep_1', status: 'success' } as DeploymentRow

t.test('whoever follows gets every line once, early or late, fast or slow', async t => {
  const { output, run, follow } = await liveStage(t)
  const wanted = Array.from({ length: 300 }, (_, index) => `line ${index}`)
  const followers = [follow(), follow(0, 1)]
  for (const text of wanted.slice(0, 150)) {
    output.line(text)
    if (Math.random() < 0.2) await sleep(1)
  }
  followers.push(follow(), follow(1e9))
  for (const text of wanted.slice(150)) {
    output.line(text)
    if (Math.random() < 0.2) await sleep(1)
  }
  await output.flush()
  run.end(row)
  followers.push(follow())
  for (const { texts } of await Promise.all(followers)) t.strictSame(texts, wanted)
})

t.test('following resumes behind any line', async t => {
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

t.test('an abort throws its reason, while waiting too', async t => {
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

t.test('one that is over no longer counts as running, but is still found', async t => {
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

t.test('one that never came to be holds nobody', async t => {
  const { live, follow, output } = await liveStage(t)
  output.say('a')
  const following = follow()
  await sleep(20)
  live.forget('dep_1')
  t.strictSame((await following).texts, ['a'])
})

t.test('the first request to stop wins', async t => {
  const { run } = await liveStage(t)
  run.stop(new StopRequest('cancel', 'first'))
  run.stop(new StopRequest('stop', 'second'))
  t.match(run.signal.reason, { message: 'first', by: 'cancel' })
})
