import t from 'tap'
import { createHubList } from '../../../lib/store/log/hub-list.js'
import { anEtcd, withoutEtcd } from '../../support/etcd.js'
import { aLog } from './stage.js'

t.test('lists what each hub last said, by name', { skip: withoutEtcd() }, async t => {
  const stage = await aLog((await anEtcd(t)).options)
  t.teardown(() => stage.close())
  const list = createHubList({ ...stage, history: stage.history.id })
  const hub = (name: string, applied: number) => ({ name, url: `https://${name}`, applied, seenAt: null, schema: 11 })
  await list.announce(hub('b', 1))
  await list.announce(hub('a', 5))
  await list.announce(hub('b', 2))
  t.same(await list.list(), [hub('a', 5), hub('b', 2)])
  await list.forget('a')
  t.same(await list.list(), [hub('b', 2)])
  const others = createHubList({ ...stage, history: 'another log' })
  await t.rejects(others.list(), { code: 'cluster_sealed' })
})
