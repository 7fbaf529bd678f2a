import { cpSync } from 'node:fs'
import t from 'tap'
import { endOfPrefix } from '../../../lib/store/log/etcd/client.js'
import { anEtcd, withoutEtcd } from '../../support/etcd.js'
import { until } from '../../support/until.js'
import { hubsOn, put } from './hubs.js'
import { readSettings } from '../../../lib/store/tables/settings.js'

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
    await second.reached(reached, AbortSignal.timeout(10_000))
    await first.close()
    stage.hubs.delete('h1')
    cpSync(stage.directoryOf('h1'), stage.directoryOf('h3'), { recursive: true })
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

    const third = await stage.open('h3')
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
