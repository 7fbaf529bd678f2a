import t from 'tap'
import type { HubRole } from '../../../lib/store/log/replicated-store.js'
import { createClusterView } from '../../../lib/server/cluster/cluster-status.js'

const cluster = { name: 'svc', hub: { name: 'h2', url: 'http://h2' } }
const following: HubRole = {
  kind: 'follower',
  leader: { name: 'h1', url: 'http://h1' },
  staleMs: 1200,
  sequence: 10,
  problem: null,
  reason: null,
  passes: false
}
const role = () => following
const noKey = { publicKey: null, boot: null }

t.test('says how far each hub is', async t => {
  const hubs = async () => [
    { name: 'h1', url: 'http://h1', applied: 8, ...noKey, seenAt: '2030-01-01T00:00:00.000Z' },
    { name: 'h2', url: 'http://h2', applied: 3, ...noKey, seenAt: null }
  ]
  t.match(await createClusterView({ store: { role, hubs }, cluster }).status(), {
    name: 'svc',
    hub: 'h2',
    role: 'follower',
    leader: { name: 'h1' },
    staleSeconds: 2,
    hubs: [
      { name: 'h1', behind: 2 },
      { name: 'h2', behind: 0, applied: 10 }
    ]
  })
})

t.test('says what it knows if etcd does not answer', async t => {
  const hubs = async () => Promise.reject(new Error('no answer'))
  const view = createClusterView({ store: { role, hubs }, cluster })
  t.match(await view.status(), { sequence: 10, hubs: [] })
  t.same(view.state(), { role: 'follower', staleSeconds: 2, sequence: 10, problem: null, reason: null })
})

t.test('a hub that is cut off shows the hubs that it knew, and asks nobody', async t => {
  let asked = 0
  let now = following
  const hubs = async () => {
    asked++
    return [{ name: 'h1', url: 'http://h1', applied: 12, ...noKey, seenAt: null }]
  }
  const view = createClusterView({ store: { role: () => now, hubs }, cluster })
  await view.status()
  now = { ...following, kind: 'alone', leader: null, staleMs: 61_000 }
  t.match(await view.status(), { role: 'alone', leader: null, staleSeconds: 61, hubs: [{ name: 'h1', behind: 0 }] })
  t.equal(asked, 1)
})
