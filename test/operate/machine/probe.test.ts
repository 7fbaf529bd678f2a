import t from 'tap'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { realDisk, type Disk } from '../../../lib/core/store/disk.js'
import { openStore } from '../../../lib/core/store/durable-store.js'
import type { HubState } from '../../../lib/model/health.js'
import { createProbe } from '../../../lib/operate/machine/probe.js'
import { setClock } from '../../support/clock.js'
import { smallDisk } from '../../support/small-disk.js'
import { openStage } from '../../support/store.js'

t.test('reports whether the store accepts writes, the uptime in seconds and the version', async t => {
  const { store, clock, directory } = await openStage(t)
  const state = { ok: true, path: '/svc.db', error: null }
  const facts = { clock, version: '1.2.3', startedAtMs: clock.now(), directory, hasToken: () => true }
  const probe = createProbe({ store: { ...store, state: () => state }, ...facts })
  clock.advance(2999)
  t.same(await probe.report(), { status: 'ok', uptime: 2, version: '1.2.3' })
  state.ok = false
  t.same(await probe.report(), { status: 'unhealthy', uptime: 2, version: '1.2.3' })
})

t.test('is starting until there is an admin token, and unhealthy if it is lost later', async t => {
  const { store, clock, directory } = await openStage(t)
  let hasToken = false
  const probe = createProbe({ store, clock, version: '1', startedAtMs: 0, directory, hasToken: () => hasToken })
  t.equal((await probe.report()).status, 'starting')
  hasToken = true
  t.equal((await probe.report()).status, 'ok')
  hasToken = false
  t.equal((await probe.report()).status, 'unhealthy')
})

t.test(
  'a directory that takes no write is seen within seconds, before anybody has tried, and so is its return',
  async t => {
    const { store, clock, directory } = await openStage(t)
    const data = join(directory, 'data')
    const probe = createProbe({ store, clock, version: '1', startedAtMs: 0, directory: data, hasToken: () => true })
    const statuses = async () => {
      const before = (await probe.report()).status
      clock.advance(3000)
      return [before, (await probe.report()).status]
    }
    t.same(await statuses(), ['unhealthy', 'unhealthy'], 'there is none')
    mkdirSync(data)
    writeFileSync(join(data, 'svc.db'), '')
    t.same(await statuses(), ['unhealthy', 'ok'])
    t.same(readdirSync(data), ['svc.db'], 'nothing is left behind')
    await rm(data, { recursive: true })
    t.same(await statuses(), ['ok', 'unhealthy'])
  }
)

t.test('notices a full disk without a write of its own, and recovers', async t => {
  const disk = smallDisk(t, 1024 * 1024)
  if (disk === null) return
  const { store, clock } = await openStage(t)
  const probe = createProbe({ store, clock, version: '1', startedAtMs: 0, directory: disk, hasToken: () => true })
  t.equal((await probe.report()).status, 'ok')
  t.throws(() => writeFileSync(join(disk, 'filler'), Buffer.alloc(2 * 1024 * 1024)), { code: 'ENOSPC' })
  clock.advance(3000)
  t.equal((await probe.report()).status, 'unhealthy')
  await rm(join(disk, 'filler'))
  clock.advance(3000)
  t.equal((await probe.report()).status, 'ok')
})

t.test('recovers a store that refused a write without waiting for another write', async t => {
  const clock = setClock()
  const directory = t.testdir()
  let isFull = false
  const disk: Disk = {
    ...realDisk,
    async open(path) {
      const file = await realDisk.open(path)
      const write: typeof file.write = async (bytes, position) => {
        if (isFull) throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
        await file.write(bytes, position)
      }
      return { ...file, write }
    }
  }
  const store = await openStore({ directory, clock, disk })
  await store.checkpoint()
  await store.close()
  const again = await openStore({ directory, clock, disk })
  t.teardown(() => again.close())
  const probe = createProbe({ store: again, clock, version: '1', startedAtMs: 0, directory, hasToken: () => true })
  isFull = true
  await t.rejects(
    again.write(tx => tx.run(`UPDATE store SET writtenAt = 'x'`)),
    { code: 'disk_full' }
  )
  t.equal((await probe.report()).status, 'unhealthy')
  isFull = false
  clock.advance(3000)
  t.equal((await probe.report()).status, 'ok')
  t.ok(again.state().ok)
  t.notOk(existsSync(join(directory, 'health.probe')))
})

t.test('writes at most once a second, and frequent requests do not wait', async t => {
  const { store, clock, directory } = await openStage(t)
  const probe = createProbe({ store, clock, version: '1', startedAtMs: 0, directory, hasToken: () => true })
  await probe.report()
  await rm(directory, { recursive: true })
  const reports = await Promise.all(Array.from({ length: 100 }, () => probe.report()))
  t.ok(
    reports.every(({ status }) => status === 'ok'),
    'the result of before is used'
  )
  clock.advance(1000)
  t.equal((await probe.report()).status, 'ok', 'while the next write is under way')
  while ((await probe.report()).status === 'ok') await nextTurn()
  t.equal((await probe.report()).status, 'unhealthy')
})

t.test('a result that was forgotten is not reported, however new it is', async t => {
  const { store, clock, directory } = await openStage(t)
  const data = join(directory, 'data')
  mkdirSync(data)
  const probe = createProbe({ store, clock, version: '1', startedAtMs: 0, directory: data, hasToken: () => true })
  t.equal(await probe.isWritable(), true)
  await rm(data, { recursive: true })
  t.equal((await probe.report()).status, 'ok', 'a new result is reported')
  probe.forget()
  t.equal((await probe.report()).status, 'unhealthy')
})

t.test('a hub that cannot follow its cluster is cut off, unless it is also unhealthy', async t => {
  const { store, clock, directory } = await openStage(t)
  const state = { ok: true, path: '/svc.db', error: null }
  let hub: HubState = { role: 'follower', staleSeconds: 1, sequence: 7, problem: null, reason: null }
  const facts = { clock, version: '1', startedAtMs: clock.now(), directory, hasToken: () => true, hub: () => hub }
  const probe = createProbe({ store: { ...store, state: () => state }, ...facts })
  t.same(await probe.report(), {
    status: 'ok',
    uptime: 0,
    version: '1',
    cluster: { role: 'follower', staleSeconds: 1 }
  })
  hub = { ...hub, role: 'alone', staleSeconds: 20 }
  t.match(await probe.report(), { status: 'cut_off', cluster: { role: 'alone', staleSeconds: 20 } })
  hub = { ...hub, role: 'follower', problem: 'The cluster has a newer schema', reason: 'database_newer' }
  t.equal((await probe.report()).status, 'cut_off', 'a follower that has stopped following')
  state.ok = false
  t.equal((await probe.report()).status, 'unhealthy')
})
