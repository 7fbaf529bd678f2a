import t from 'tap'
import { readSettings } from '../../lib/core/store/tables/server.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { startHubs } from '../support/hub-processes.js'
import { soon, until } from '../support/until.js'
import { createLeaderQueue } from '../../lib/cluster/hub.js'
import type { LocalCopy } from '../../lib/cluster/local-copy.js'
import { LostLeadership } from '../../lib/core/store/redo.js'
import { EtcdError } from '../../lib/cluster/etcd/connection.js'
import { contentOf, hubsOn, put } from './hubs.js'

/* What fails in a cluster, on a real etcd of three members with TLS and authentication. */

const skip = withoutEtcd()
const limits = { probeMs: 500 }

t.test('without a majority of etcd reads are answered and writes are refused, until it is back', { skip }, async t => {
  const etcd = await anEtcd(t, { size: 3 })
  const stage = hubsOn(t, etcd.options)
  const first = await stage.open('h1', { limits })
  const second = await stage.open('h2', { limits })
  const leader = await stage.leader()
  const other = leader === first ? second : first
  await put(leader, 'a', '1')
  await other.reached(leader.sequence(), soon())
  const roles: string[] = []
  const stop = leader.onRole(({ kind }) => roles.push(kind))

  await etcd.members[0]?.kill()
  await etcd.members[1]?.kill()
  const fromMs = performance.now()
  const refused = await put(leader, 'lost', '1').then(
    () => null,
    (error: unknown) => error as { code: string; retryAfterSeconds: number }
  )
  t.ok(performance.now() - fromMs < 10_000, 'after at most 10 s')
  t.match(refused, { code: /^(write_unknown|no_leader)$/, retryAfterSeconds: 3 })
  t.equal(readSettings(leader)['lost'], undefined, 'memory is as it was before')
  await until(() => leader.role().kind === 'alone' && other.role().kind === 'alone')
  for (const hub of [leader, other]) await t.rejects(put(hub, 'b', '1'), { code: 'no_leader', retryAfterSeconds: 3 })
  t.equal(readSettings(other)['a'], '1')
  t.ok(other.role().staleMs > 500)
  t.ok(other.state().ok, 'its own database is well')
  await t.rejects(other.hubs(), { code: 'no_leader', retryAfterSeconds: 3 })

  etcd.members[0]?.start()
  etcd.members[1]?.start()
  const again = await stage.leader()
  await put(again, 'c', '1')
  for (const hub of [first, second]) await hub.reached(again.sequence(), soon())
  t.same(contentOf(first), contentOf(second))
  t.ok(first.state().ok && second.state().ok)
  await until(() => [first, second].every(hub => hub.role().staleMs < 2000))
  stop()
  t.ok(roles.includes('alone'))
})

t.test('writes continue after the member that leads etcd was killed', { skip }, async t => {
  const etcd = await anEtcd(t, { size: 3 })
  const stage = hubsOn(t, etcd.options)
  const first = await stage.open('h1', { limits })
  const second = await stage.open('h2', { limits })
  const leader = await stage.leader()
  await put(leader, 'a', '1')
  await etcd.members[await etcd.leader()]?.kill()
  const fromMs = performance.now()
  await until(async () => {
    const current = await stage.leader()
    return put(current, 'b', '2').then(
      () => true,
      () => false
    )
  })
  t.comment(`the next write was acknowledged after ${Math.round(performance.now() - fromMs)} ms`)
  const current = await stage.leader()
  for (const hub of [first, second]) await hub.reached(current.sequence(), soon())
  t.same(contentOf(first), contentOf(second))
})

t.test('a leader that slept past its lease can write nothing, and follows then', { skip }, async t => {
  const etcd = await anEtcd(t, { size: 3 })
  const cluster = await startHubs({ etcd: etcd.options, directory: t.testdir(), size: 2, limits })
  t.teardown(() => cluster.close())
  const sleeper = await cluster.leader()
  const other = cluster.hubs.find(hub => hub !== sleeper) as typeof sleeper
  t.equal((await sleeper.ask('/write', { key: 'a', value: 'before' })).status, 200)
  sleeper.signal('SIGSTOP')
  // The system accepts the request; the process sees it when it wakes.
  const late = sleeper.ask('/write', { key: 'a', value: 'late' })
  await until(async () => (await other.ask('/role')).body['kind'] === 'leader', { what: 'another leader' })
  t.equal((await other.ask('/write', { key: 'a', value: 'after' })).status, 200)
  sleeper.signal('SIGCONT')
  const answer = await late
  t.equal(answer.status, 503)
  t.match(answer.body.code, /^(no_leader|not_leader)$/)
  await until(async () => (await sleeper.ask('/local', { key: 'a' })).body.seen === 'after')
  await until(async () => (await sleeper.ask('/role')).body['kind'] === 'follower')
  t.same((await sleeper.ask('/content')).body, (await other.ask('/content')).body)
})

t.test('a follower goes on when its watch is cut, and when it says nothing any more', { skip }, async t => {
  const etcd = await anEtcd(t, { size: 3 })
  const stage = hubsOn(t, etcd.options)
  const first = await stage.open('h1', { limits })
  // Its own first member is not the one that leads.
  const away = ((await etcd.leader()) + 1) % 3
  const endpoints = [...etcd.options.endpoints.slice(away), ...etcd.options.endpoints.slice(0, away)]
  const second = await stage.open('h2', { limits, etcd: { ...etcd.options, endpoints } })
  await stage.leader()
  await put(first, 'a', '1')
  await second.reached(first.sequence(), soon())
  await etcd.members[away]?.kill()
  await put(first, 'b', '2')
  await second.reached(first.sequence(), soon())
  etcd.members[away]?.start()
  await etcd.ready()

  const now = ((await etcd.leader()) + 1) % 3
  etcd.members[now]?.signal('SIGSTOP')
  for (let n = 0; n < 20; n++) await put(first, `c${n}`, '3')
  await second.reached(first.sequence(), soon())
  t.same(contentOf(first), contentOf(second))
  etcd.members[now]?.signal('SIGCONT')
})

t.test('a full etcd refuses writes with a sentence, and accepts them after the alarm', { skip }, async t => {
  const etcd = await anEtcd(t, { size: 1, words: ['--quota-backend-bytes', String(16 * 1024 * 1024)] })
  const stage = hubsOn(t, etcd.options)
  // Only a full etcd is trimmed: however slow the machine is, the writes fill it.
  const first = await stage.open('h1', { limits: { ...limits, keptWrites: 2, trimMs: 60 * 60_000 } })
  await stage.leader()
  const large = 'x'.repeat(500_000)
  let refused: { code?: string; message?: string } | null = null
  let written = 0
  for (let n = 0; n < 100 && refused === null; n++) {
    await put(first, `large${n}`, large).then(
      () => written++,
      (error: unknown) => (refused = error as { code: string })
    )
  }
  t.match(refused, { code: 'disk_full', message: /etcd is full/ })
  t.equal(Object.keys(readSettings(first)).length, written)
  t.equal(first.role().kind, 'leader', 'it still leads')
  t.match(first.state(), { ok: false, error: /full/ })
  const { header } = await etcd.ask('/v3/maintenance/status')
  const memberID = (header as { member_id: string }).member_id
  // The leader has trimmed the log; what remains is for a person.
  await until(async () => {
    await etcd.ask('/v3/maintenance/defragment')
    await etcd.ask('/v3/maintenance/alarm', { action: 'DEACTIVATE', memberID, alarm: 'NOSPACE' })
    return put(first, 'small', '1').then(
      () => true,
      () => false
    )
  })
  t.ok(first.state().ok)
})

t.test('a hub that etcd does not answer opens with what it has', { skip }, async t => {
  const etcd = await anEtcd(t)
  const stage = hubsOn(t, etcd.options)
  const first = await stage.open('h1', { limits })
  await stage.leader()
  await put(first, 'a', '1')
  await first.close()
  stage.hubs.delete('h1')
  await etcd.members[0]?.kill()
  const again = await stage.open('h1', { limits, begin: false })
  t.equal(readSettings(again)['a'], '1')
  t.equal(again.role().kind, 'alone')
  t.ok(again.role().staleMs > 0)
  await t.rejects(put(again, 'b', '1'), { code: 'no_leader', retryAfterSeconds: 3 }, 'clients try again')
  etcd.members[0]?.start()
  await stage.leader()
  await put(again, 'b', '1')
})

/** A queue on a log that fails with `error`, and what happened. */
function aQueue({ error = null, fault = null }: { error?: Error | null; fault?: Error | null } = {}) {
  const happened: string[] = []
  const say = (what: string) => () => void happened.push(what)
  const memory = {
    succeed: say('memory succeeds'),
    fail(refusal: Error) {
      happened.push('memory fails')
      return refusal
    }
  }
  const copy = { applied: 7, fault, memory, consider: say('checkpoint'), record: async () => say('recorded')() }
  const queue = createLeaderQueue({
    copy: copy as unknown as LocalCopy,
    log: {
      async append(first) {
        if (error !== null) throw error
        happened.push(`appended ${first}`)
      }
    },
    won: { abandon: say('abandoned') },
    observe: () => {},
    onDurable: say('durable'),
    onFailure: say('failure')
  })
  return { queue, happened }
}

t.test('a write is in etcd first, then on the disk of this hub', async t => {
  const { queue, happened } = aQueue()
  await queue.push('a')
  await queue.settled()
  t.same(happened, ['appended 8', 'recorded', 'memory succeeds', 'checkpoint', 'durable'])
})

t.test('a hub gives its term up when it cannot keep what it appends, or no longer leads', async t => {
  const full = aQueue({ fault: new Error('the disk is full') })
  await full.queue.push('a')
  t.ok(full.happened.includes('abandoned'), 'the write is durable in etcd')

  const lost = aQueue({ error: new LostLeadership() })
  await t.rejects(lost.queue.push('a'), { code: 'no_leader' })
  t.same(lost.happened, ['failure', 'memory fails', 'abandoned'])
})

t.test('a hub leads on while etcd is full', async t => {
  const { queue, happened } = aQueue({ error: new EtcdError(8, 'mvcc: database space exceeded') })
  await t.rejects(queue.push('a'), { code: 'disk_full' })
  t.same(happened, ['failure', 'memory fails'])
})
