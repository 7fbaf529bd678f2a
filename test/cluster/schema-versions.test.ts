import t from 'tap'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { startHubs, type HubProcess } from '../support/hub-processes.js'
import { newerSvc } from '../support/newer-svc.js'
import { until } from '../support/until.js'

/*
 * Hubs of two versions side by side: the newer program is a copy of this one with one migration more.
 */

const skip = withoutEtcd()

const roleOf = async (hub: HubProcess) => (await hub.ask('/role')).body
const write = (hub: HubProcess, value: string) => hub.ask('/write', { key: 'a', value })

t.test('hubs are upgraded one after the other while writes continue', { skip }, async t => {
  const directory = t.testdir({})
  const { lib: newer } = newerSvc(directory)
  const etcd = await anEtcd(t, { size: 3 })
  const cluster = await startHubs({ etcd: etcd.options, directory, size: 3, limits: { probeMs: 500 } })
  t.teardown(() => cluster.close())
  const leader = await cluster.leader()
  const [second, third] = cluster.hubs.filter(hub => hub !== leader) as [HubProcess, HubProcess]
  t.equal((await write(leader, '1')).status, 200)

  // A newer hub waits until the cluster has its schema.
  await third.stop()
  const opening = third.start(newer)
  await until(() => third.said.find(line => /needs .* It is migrated when a hub of this version leads/.test(line)))
  t.equal((await write(leader, '12')).status, 200, 'meanwhile the others work')

  // When the leader stops, the newer hub leads and migrates, and the older one stops following.
  await leader.stop()
  await opening
  t.equal((await cluster.leader()).name, third.name, 'the newer one, not the older one')
  t.equal((await write(third, '123')).status, 200)
  await until(async () =>
    /schema version \d+, but this svc supports at most/.test(String((await roleOf(second))['problem']))
  )
  t.match(await roleOf(second), { kind: 'follower', leader: { name: third.name } })
  t.equal((await second.ask('/local', { key: 'a' })).body.seen, '12', 'it still answers what it had')
  t.match(await write(second, 'x'), { status: 503, body: { code: 'not_leader' } })

  // An older hub that is started now says why it cannot work.
  await t.rejects(leader.start(), /ended with/)
  await leader.start(newer)
  await second.stop()
  await second.start(newer)
  t.equal((await write(third, '1234')).status, 200)
  const { body: wanted } = await third.ask('/content')
  for (const hub of cluster.hubs) {
    await until(async () => (await hub.ask('/content')).body.sequence === wanted.sequence)
    t.same((await hub.ask('/content')).body, wanted, hub.name)
  }
})
