import t from 'tap'
import { createHubList } from '../../../lib/store/log/hub-list.js'
import { anEtcd, withoutEtcd } from '../../support/etcd.js'
import { ownHub } from '../../support/hub-keys.js'
import { aLog } from './stage.js'

t.test('lists what each hub last said, by name', { skip: withoutEtcd() }, async t => {
  const stage = await aLog((await anEtcd(t)).options)
  t.teardown(() => stage.close())
  const list = createHubList({ ...stage, history: stage.history.id })
  const hub = (name: string, applied: number) => {
    return { ...ownHub({ name, url: `https://${name}` }), applied, seenAt: null, schema: 11 }
  }
  await list.register(hub('b', 1))
  await list.register(hub('a', 5))
  const { keys: found } = await stage.client.range({ key: stage.keys.hub('b') })
  const [entry] = list.read(found)
  t.equal(await list.announce(hub('b', 2), entry?.createRevision as number), true)
  t.same(await list.list(), [hub('a', 5), hub('b', 2)])
  await list.forget('a')
  t.same(await list.list(), [hub('b', 2)])
  t.equal(await list.announce(hub('a', 6), 1), false, 'a hub that was removed does not come back by itself')
  const others = createHubList({ ...stage, history: 'another log' })
  t.same(await others.list(), [], 'of another log')
})
