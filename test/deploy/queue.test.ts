import t from 'tap'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { EventEmitter, once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  addSaying,
  createQueue,
  createTargetLocks,
  createTargetTurns,
  type QueueEntry,
  waitAhead,
  workOnTargetFile
} from '../../lib/deploy/queue.js'
import { deployStage, never } from '../support/deploy-stage.js'
import { randomIds } from '../../lib/base/digests.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { alwaysRevert } from '../../lib/core/install/unpack/extract.js'
import { createFiles } from '../../lib/deploy/files.js'
import { createLive, openWindow } from '../../lib/deploy/output/live.js'
import { openOutput } from '../../lib/deploy/output/output.js'
import { createPending } from '../../lib/deploy/intake.js'
import { StopRequest } from '../../lib/deploy/failure.js'
import { zipOf } from '../support/zip.js'
import { beginRollout } from '../support/fleet-rollout.js'
import { ana, openFleet } from '../support/fleet-stage.js'
import { until } from '../support/until.js'

/** Creates an entry that records its start and runs until it is told to end. */
function entry(key: string, id: string, begun: string[]): QueueEntry & { end(): void } {
  let end = (): void => {}
  const over = new Promise<void>(resolve => (end = resolve))
  return {
    key,
    id,
    end: () => end(),
    drop: () => over,
    run() {
      begun.push(id)
      return over
    }
  }
}

t.test('runs one entry at a time per key, in order of arrival', async t => {
  const begun: string[] = []
  const queue = createQueue()
  const a = entry('shop', 'a', begun)
  const b = entry('shop', 'b', begun)
  const c = entry('shop', 'c', begun)
  t.equal(queue.add(a), 0, 'nothing is ahead of the first')
  t.equal(queue.add(b), 1)
  t.equal(queue.add(c), 2)
  t.strictSame(begun, ['a'])
  a.end()
  await turn()
  t.strictSame(begun, ['a', 'b'])
  t.equal(queue.count('shop'), 2)
  b.end()
  await turn()
  c.end()
  await turn()
  t.strictSame(begun, ['a', 'b', 'c'])
  t.equal(queue.count('shop'), 0)
})

t.test('runs different keys in parallel', async t => {
  const begun: string[] = []
  const queue = createQueue()
  queue.add(entry('shop', 'a', begun))
  queue.add(entry('blog', 'b', begun))
  t.strictSame(begun, ['a', 'b'])
})

t.test('takes back waiting entries, but not running ones', async t => {
  const begun: string[] = []
  const queue = createQueue()
  const a = entry('shop', 'a', begun)
  queue.add(a)
  queue.add(entry('shop', 'b', begun))
  queue.add(entry('shop', 'c', begun))
  t.equal(queue.takeBack('b')?.id, 'b')
  t.equal(queue.takeBack('b'), undefined)
  t.equal(queue.takeBack('a'), undefined)
  t.strictSame(
    queue.takeBackAll().map(({ id }) => id),
    ['c']
  )
  a.end()
  await turn()
  t.strictSame(begun, ['a'])
  queue.add(entry('shop', 'd', begun))
  t.strictSame(begun, ['a', 'd'], 'an emptied queue starts again')
})

t.test('serializes the same directory, and runs different ones in parallel', async t => {
  const top = t.testdir({ a: { in: {} }, b: {} })
  const locks = createTargetLocks()
  const order: string[] = []
  const waits: string[] = []
  const waiting = new EventEmitter()
  const hold = async (holder: string, path: string): Promise<void> => {
    const onWait = (forWhom: string): void => {
      waits.push(`${holder} for ${forWhom}`)
      waiting.emit(holder)
    }
    await locks.hold(holder, join(top, path), { signal: never, onWait })
    order.push(holder)
  }
  await hold('1', 'a')
  const second = hold('2', 'a/in')
  await once(waiting, '2')
  const third = hold('3', 'a')
  await once(waiting, '3')
  await hold('4', 'b')
  t.same(order, ['1', '4'])
  t.equal(await locks.hold('1', join(top, 'a'), { signal: never }), join(top, 'a'), 'it already has the lock')
  locks.release('1')
  await second
  locks.release('2')
  await third
  t.same(order, ['1', '4', '2', '3'])
  t.same(waits, ['2 for 1', '3 for 1', '3 for 2'])
  t.notOk(locks.isHeld('2'))
})

t.test('a lock is released after the work that its holder left, and nobody is told to wait for it', async t => {
  const target = t.testdir()
  const locks = createTargetLocks()
  const waits: string[] = []
  for (const outcome of ['done', 'failed'] as const) {
    let end = (): void => {}
    const work = new Promise<void>((resolve, reject) => {
      end = () => (outcome === 'done' ? resolve() : reject(new Error('no space left on device')))
    })
    await locks.hold('1', target, { signal: never })
    locks.releaseAfter('1', work)
    const second = locks.hold('2', target, { signal: never, onWait: whom => void waits.push(whom) })
    const tidied = locks.tidied()
    await turn()
    t.ok(locks.isHeld('1'))
    end()
    await Promise.all([tidied, second])
    t.notOk(locks.isHeld('1'))
    locks.release('2')
  }
  t.strictSame(waits, [])
})

t.test('work that never ends keeps its lock, and nobody waits for ever until all is tidy', async t => {
  const locks = createTargetLocks(1)
  await locks.hold('1', t.testdir(), { signal: never })
  locks.releaseAfter('1', new Promise(() => {}))
  const alive = setInterval(() => {}, 1000)
  await locks.tidied()
  clearInterval(alive)
  t.ok(locks.isHeld('1'))
})

t.test('two holders that exchange their targets do not deadlock', async t => {
  const top = t.testdir({ a: {}, b: {} })
  const links = ['one', 'two'].map(name => join(top, name)) as [string, string]
  const lead = (one: string, two: string): void => {
    for (const link of links) rmSync(link, { force: true })
    symlinkSync(one, links[0])
    symlinkSync(two, links[1])
  }
  lead('a', 'b')
  const locks = createTargetLocks()
  for (const link of links) await locks.hold(link, link, { signal: never })
  lead('b', 'a')
  const held = links.map(async link => {
    const real = await locks.hold(link, link, { signal: never })
    locks.release(link)
    return real
  })
  t.same(await Promise.all(held), [join(top, 'b'), join(top, 'a')])
})

t.test('waits again if the target leads elsewhere after the wait', async t => {
  const top = t.testdir({ a: {}, b: {} })
  const link = join(top, 'link')
  symlinkSync('a', link)
  const locks = createTargetLocks()
  await locks.hold('1', join(top, 'a'), { signal: never })
  await locks.hold('2', join(top, 'b'), { signal: never })
  const reached: string[] = []
  let heard = (): void => {}
  const next = (): Promise<void> => new Promise(resolve => (heard = resolve))
  const waiting = next()
  const third = locks.hold('3', link, {
    signal: never,
    onWait: (_, real) => {
      reached.push(real)
      heard()
    }
  })
  await waiting
  rmSync(link)
  symlinkSync('b', link)
  const again = next()
  locks.release('1')
  await again
  t.same(reached, [join(top, 'a'), join(top, 'b')])
  locks.release('2')
  t.equal(await third, join(top, 'b'))
})

t.test('an abort leaves the line', async t => {
  const top = t.testdir({ a: {} })
  mkdirSync(join(top, 'a/in'))
  const locks = createTargetLocks()
  await locks.hold('1', join(top, 'a'), { signal: never })
  const leaving = new AbortController()
  const second = locks.hold('2', join(top, 'a'), {
    signal: leaving.signal,
    onWait: () => leaving.abort(new Error('cancelled'))
  })
  await t.rejects(second, { message: 'cancelled' })
  t.notOk(locks.isHeld('2'))
  const third = locks.hold('3', join(top, 'a'), { signal: never })
  locks.release('1')
  await third
  t.ok(locks.isHeld('3'))
  await t.rejects(locks.hold('3', join(top, 'a'), { signal: leaving.signal }), { message: 'cancelled' })
})

t.test('turns', async t => {
  const stage = await deployStage(t)
  const files = createFiles(stage.home)
  const executors = createExecutors()
  t.teardown(() => executors.close())
  const [queue, targets] = [createQueue(), createTargetLocks()]
  const pending = createPending({ ...stage, files })
  const ends = { settle: async () => {} }
  const refuseWhenStopping = () => {}
  const live = createLive()
  const parts = { files, executors, targets, pending, queue, live, ends, open: alwaysRevert, refuseWhenStopping }
  const turns = createTargetTurns({ ...stage, ...parts })
  const project = await stage.addProject()
  const request = { projectId: project.id, cannot: 'Cannot do it' }
  /** Occupies the queue until the returned function is called. */
  const occupy = (): (() => void) => {
    let end = (): void => {}
    const run = (): Promise<void> => new Promise(resolve => (end = resolve))
    queue.add({ key: project.id, id: randomIds.id('dep_'), run, drop: async () => {} })
    return () => end()
  }

  await t.test('a turn extracts, leaves its journal until it is settled, and looks at files', async t => {
    const archivePath = join(stage.home.tmp, 'a.zip')
    writeFileSync(archivePath, await zipOf({ 'a.txt': '1' }))
    const size = await turns(request, async turn => {
      await t.rejects(turn.extract(archivePath, { reserved: ['a.txt'] }), { code: 'reserved_path' })
      await turn.extract(archivePath)
      t.ok(existsSync(files.journal(turn.id)))
      t.ok(targets.isHeld(turn.id))
      await turn.settle()
      const found = await turn.file({ path: 'a.txt' })
      return found.is === 'file' ? found.size : null
    })
    t.equal(size, 1)
    t.equal(readFileSync(join(project.deployPath, 'a.txt'), 'utf8'), '1')
    t.same(readdirSync(stage.home.deployments), [])
    const looked = await workOnTargetFile(executors, null, { target: project.deployPath, path: 'b.txt' })
    t.same(looked, { is: 'absent' })
    const broken = { comparing: () => ({ run: async () => ({ kind: 'died' }) as const, isStuck: () => false }) }
    await t.rejects(workOnTargetFile(broken, null, { target: project.deployPath, path: 'b.txt' }), {
      code: 'target_stuck'
    })
  })

  await t.test('an error of the work ends the turn, and the next one begins', async t => {
    await t.rejects(
      turns(request, async () => {
        throw new Error('broken')
      }),
      { message: 'broken' }
    )
    t.equal(await turns(request, async () => 'next'), 'next')
    await t.rejects(
      turns({ ...request, projectId: 'proj_x' }, async () => {}),
      { code: 'not_found' }
    )
  })

  await t.test('a turn waits, but not longer than it may', async t => {
    const end = occupy()
    let hasRun = false
    await t.rejects(
      turns({ ...request, maxWaitMs: 20 }, async () => {
        hasRun = true
      }),
      { code: 'deployment_running', message: /^Cannot do it: /, retryAfterSeconds: 5 }
    )
    const waiting = turns({ ...request, maxWaitMs: 60_000 }, async () => 'ran')
    end()
    t.equal(await waiting, 'ran')
    t.notOk(hasRun, 'the other one lost its place')
  })

  await t.test('a turn whose request is gone leaves the queue', async t => {
    const end = occupy()
    const gone = new AbortController()
    const waiting = turns({ ...request, signal: gone.signal }, async () => t.fail('it runs'))
    t.equal(queue.count(project.id), 2)
    gone.abort(new Error('gone'))
    await t.rejects(waiting, { message: 'gone' })
    t.equal(queue.count(project.id), 1)
    end()
  })

  await t.test('a turn that may not wait longer says what must be confirmed', async t => {
    const end = occupy()
    const output = await openOutput({ path: join(stage.home.tmp, 'dep.log'), clock: stage.clock })
    const held = live.begin({ deployId: 'dep_held', projectId: project.id, output })
    held.window = openWindow({ ms: 60_000, nowMs: stage.clock.now() })
    const message = /^Cannot do it: dep_held waits to be confirmed, until .*"svc confirm dep_held"/
    await t.rejects(
      turns({ ...request, maxWaitMs: 20 }, async () => {}),
      { code: 'deployment_running', message }
    )
    live.forget('dep_held')
    end()
  })

  await t.test('a server that stops refuses those that wait', async t => {
    const end = occupy()
    const waiting = t.rejects(
      turns({ ...request, maxWaitMs: 60_000 }, async () => {}),
      { code: 'shutting_down', message: /^Cannot do it: / }
    )
    for (const entry of queue.takeBackAll()) void entry.drop(new StopRequest('stop', 'stopped'))
    await waiting
    end()
  })
})

t.test('a deployment that waits names the rollout ahead, and another one that follows it', async t => {
  const stage = await openFleet(t, ['a'])
  const queue = createQueue()
  const said: string[] = []
  const add = (id: string, run: () => Promise<unknown>): number =>
    addSaying({ store: stage.store, queue, live: createLive() }, { key: 'proj_a', id, run, async drop() {} }, line =>
      said.push(`${id} ${line}`)
    )
  const first = await beginRollout(stage)
  let end = (): void => {}
  t.equal(
    add('dep_1', () => new Promise<void>(resolve => (end = resolve))),
    0
  )
  t.equal(
    add('dep_2', async () => {}),
    1
  )
  t.equal(
    add('dep_3', async () => {}),
    2
  )
  await until(() => said.length === 2)
  t.match(
    said[0],
    `dep_2 → waits: rollout ${first} has been in progress since 2030-01-01T00:00:00.000Z. "svc rollout status`
  )
  const second = await beginRollout(stage)
  await until(() => said.length === 4)
  t.match(said[2], `dep_2 → waits: rollout ${second} has been in progress`)
  await queue.takeBack('dep_3')?.drop(new StopRequest('cancel', 'test'))
  await stage.hub.rollouts.halt(second, null, ana)
  end()
  await until(() => queue.count('proj_a') === 0)
  t.equal(said.length, 4, 'one that does not wait says nothing')
})

t.test('what waits says that a deployment ahead must be confirmed', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  const [queue, live] = [createQueue(), createLive()]
  const { store, clock } = stage
  const output = await openOutput({ path: join(t.testdir({}), 'dep.log'), clock })
  const held = live.begin({ deployId: 'dep_held', projectId: project.id, output })
  const parts = { key: project.id, async run() {}, async drop() {} }
  const said: string[] = []
  let end = (): void => {}
  queue.add({ ...parts, id: 'dep_held', run: () => new Promise<void>(resolve => (end = resolve)) })
  t.equal(waitAhead({ store, live }, project.id), null, 'it is at work')
  held.window = openWindow({ ms: 60_000, nowMs: Date.parse('2030-01-01T00:00:00Z') })
  const ahead = waitAhead({ store, live }, project.id) as string
  t.match(ahead, /^dep_held waits to be confirmed, until 2030-01-01 00:01:00 UTC\. "svc confirm dep_held"/)
  t.equal(waitAhead({ store, live }, 'proj_other'), null)
  addSaying({ store, queue, live }, { ...parts, id: 'dep_next' }, line => said.push(line))
  await until(() => said.length === 1)
  t.strictSame(said, [`→ waits: ${ahead}`])
  end()
  await until(() => queue.count(project.id) === 0)
})

t.test('what a stop leaves to the next start reads no closed database', async t => {
  const stage = await openFleet(t, ['a'])
  const queue = createQueue()
  const entry = { key: 'proj_a', async drop() {} }
  const said: string[] = []
  queue.add({ ...entry, id: 'dep_1', run: () => new Promise(() => {}) })
  await beginRollout(stage)
  addSaying({ store: stage.store, queue, live: createLive() }, { ...entry, id: 'dep_2', async run() {} }, line =>
    said.push(line)
  )
  await until(() => said.length === 1)
  t.equal(queue.isWaiting('dep_2'), true)
  const readable = stage.store.all
  stage.store.all = () => {
    throw new Error('The database cannot be read')
  }
  await sleep(2500)
  stage.store.all = readable
  queue.takeBackAll()
  await stage.store.close()
  await sleep(2500)
  t.equal(said.length, 1)
})
