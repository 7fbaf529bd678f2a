import t from 'tap'
import { createClient, type Client } from '../support/client.js'
import { startCluster } from '../support/cluster-stage.js'
import { withoutSnapshots } from '../support/etcd.js'
import { until } from '../support/until.js'

/* etcd is set back to a snapshot while one hub runs and the other one is stopped. Both say so and change nothing. */

for (const auth of [true, false]) {
  const how = auth ? 'with a password' : 'without a password'
  t.test(`hubs that are served name the reason, ${how}`, { skip: withoutSnapshots() }, async t => {
    const stage = await startCluster(t, [], { auth })
    const { etcd, hubs, urls } = stage
    const { adminToken } = hubs[0]
    const clients = urls.map(url => createClient(() => url, adminToken)) as [Client, Client]
    const add = (at: 0 | 1, name: string) => clients[at].post('/api/categories', { name, color: 'blue' })
    await etcd.keep()
    await until(async () => (await add(1, 'Kept')).status === 200, { what: 'a change after the snapshot' })
    const roles = () => Promise.all([stage.roleOf(0), stage.roleOf(1)])
    await until(async () => (await roles()).sort().join() === 'follower,leader')
    for (let n = 0; n < 20; n++) await add(0, `After ${n}`)
    const names = async (at: 0 | 1) =>
      ((await clients[at].get('/api/categories')).body as Array<{ name: string }>).map(({ name }) => name)
    await until(async () => (await names(1)).length === 21)
    const had = await names(0)

    await hubs[1].stop()
    await etcd.goBack()
    await stage.start(1)
    for (const at of [0, 1] as const) {
      const hub = `h${at + 1}`
      const health = async () => (await clients[at].get('/api/health')).body
      const status = async () => (await clients[at].get('/api/cluster')).body.cluster
      await until(async () => (await status()).reason === 'log_older', { what: `the reason of ${hub}` })
      t.match(await status(), { role: 'alone', problem: /etcd was restored from a backup.*Nothing was changed/ }, hub)
      t.match(await health(), { cluster: { role: 'alone', reason: 'log_older' } }, hub)
      const metrics = await clients[at].get('/metrics')
      t.match(metrics.text, /^svc_cluster_problem\{[^}]*log_older[^}]*\} 1$/m, hub)
      const said = await stage.run(at, ['cluster', 'status'])
      t.match(said.stdout + said.stderr, /etcd was restored from a backup/, hub)
      const refused = await add(at, 'Lost')
      t.match(refused, { status: 503, body: { code: 'no_leader', error: /etcd was restored from a backup/ } }, hub)
      t.equal(refused.headers['retry-after'], undefined, `${hub}: waiting does not help`)
      t.notMatch(refused.text, /try again|within seconds/i)
      t.strictSame(await names(at), had, `${hub} answers reads from what it has`)
    }
  })
}
