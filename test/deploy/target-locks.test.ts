import t from 'tap'
import { EventEmitter, once } from 'node:events'
import { mkdirSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createTargetLocks } from '../../lib/deploy/target-locks.js'
import { never } from '../support/deploy-stage.js'

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
