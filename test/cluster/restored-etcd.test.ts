import { rmSync } from 'node:fs'
import t from 'tap'
import type { Refusal } from '../../lib/base/errors.js'
import { endOfPrefix } from '../../lib/cluster/etcd/client.js'
import { anEtcd, withoutEtcd, withoutSnapshots } from '../support/etcd.js'
import { soon, until } from '../support/until.js'
import { hubsOn, put } from './hubs.js'
import { readSettings } from '../../lib/core/store/tables/server.js'

/* etcd is restored from an older snapshot, and a hub that was away since then makes the log grow again. */
const base64 = (text: string): string => Buffer.from(text).toString('base64')

t.test(
  'a hub notices that other writes took the place of its own, also after it started again',
  { skip: withoutEtcd() },
  async t => {
    const etcd = await anEtcd(t)
    const stage = hubsOn(t, etcd.options)
    const first = await stage.open('h1')
    await stage.leader()
    await put(first, 'a', 'before')
    const second = await stage.open('h2')
    const reached = first.sequence()
    await second.reached(reached, soon())
    await first.close()
    stage.hubs.delete('h1')
    await until(() => second.role().kind === 'leader')
    await put(second, 'a', 'acknowledged')
    const had = second.sequence()
    await second.close()
    stage.hubs.delete('h2')

    // What a restore of the snapshot leaves.
    const { kvs } = (await etcd.ask('/v3/kv/range', {
      key: base64('/svc/'),
      range_end: base64(endOfPrefix('/svc/')),
      keys_only: true
    })) as { kvs: Array<{ key: string }> }
    const lines = kvs.map(({ key }) => Buffer.from(key, 'base64').toString()).filter(key => /\/log\/\d+$/.test(key))
    for (const key of lines.filter(key => Number(key.slice(-16)) > reached))
      await etcd.ask('/v3/kv/deleterange', { key: base64(key) })

    const third = await stage.open('h1')
    await until(() => third.role().kind === 'leader')
    for (const value of ['other', 'and on']) await put(third, 'a', value)
    t.ok(third.sequence() > had, 'the log has grown beyond what the second hub has')

    const again = await stage.open('h2')
    await until(() => /has another transaction .* with an empty data directory/.test(again.role().problem ?? ''))
    t.equal(readSettings(again)['a'], 'acknowledged', 'nothing is lost silently')
    t.equal(again.sequence(), had)
    await put(third, 'b', '1')
    t.equal(readSettings(again)['b'], undefined, 'it takes nothing over from the other history')
  }
)

for (const auth of [true, false]) {
  const how = auth ? 'with a password' : 'without a password'
  t.test(
    `hubs that run while etcd is set back, ${how}: nothing is acknowledged over a hole`,
    { skip: withoutSnapshots() },
    async t => {
      const etcd = await anEtcd(t, { size: 3, auth })
      const stage = hubsOn(t, etcd.options)
      const limits = { probeMs: 300 }
      const hubs = [await stage.open('h1', { limits }), await stage.open('h2', { limits })]
      const first = await stage.leader()
      await put(first, 'a', 'before')
      await etcd.keep()
      const leader = await stage.leader()
      for (let at = 0; at < 40; at++) await put(leader, 'a', String(at)).catch(() => {})
      await put(await stage.leader(), 'a', 'acknowledged')
      const had = Math.max(...hubs.map(hub => hub.sequence()))
      await Promise.all(hubs.map(hub => hub.reached(had, soon())))

      await etcd.goBack()
      const saved: string[] = []
      const writing = Promise.all(
        hubs.map(async (hub, at) => {
          for (let n = 0; n < 20; n++)
            await put(hub, 'b', `${at} ${n}`).then(
              () => saved.push(`${at} ${n}`),
              () => {}
            )
        })
      )
      for (const hub of hubs) await until(() => hub.role().reason === 'log_older', { what: 'the reason' })
      await writing
      t.same(saved, [], 'no write is acknowledged')
      for (const hub of hubs) {
        t.match(hub.role(), {
          kind: 'alone',
          leader: null,
          problem: /etcd was restored from a backup.*Nothing was changed/
        })
        t.equal(readSettings(hub)['a'], 'acknowledged')
        t.equal(hub.sequence(), had)
        const refused = await put(hub, 'b', '1').catch((error: unknown) => error as Refusal)
        t.match(refused, { code: 'no_leader', message: /etcd was restored from a backup/ })
        t.notMatch((refused as Refusal).message, /try again/i, 'waiting does not help')
      }
      await until(() => hubs.every(hub => hub.role().staleMs > 0))

      // The way out (docs/fleet.md): the hub with most writes begins the log again, and the others join with empty directories.
      for (const hub of hubs) await hub.close()
      stage.hubs.clear()
      await etcd.ask('/v3/kv/deleterange', { key: base64('/svc/'), range_end: base64(endOfPrefix('/svc/')) })
      const again = await stage.open('h1', { limits, begin: true })
      await until(() => again.role().kind === 'leader')
      await put(again, 'b', 'saved')
      rmSync(stage.directoryOf('h2'), { recursive: true })
      const joined = await stage.open('h2', { limits })
      t.match(readSettings(joined), { a: 'acknowledged', b: 'saved' })
    }
  )
}
