import t from 'tap'
import { readClusterStatus } from '../../../lib/server/cluster/cluster-status.js'

const cluster = { name: 'svc', hub: { name: 'h2', url: 'http://h2' } }
const role = () =>
  ({ kind: 'follower', leader: { name: 'h1', url: 'http://h1' }, staleMs: 1200, sequence: 10, problem: null }) as const

t.test('says how far each hub is', async t => {
  const hubs = async () => [
    { name: 'h1', url: 'http://h1', applied: 8, seenAt: '2030-01-01T00:00:00.000Z' },
    { name: 'h2', url: 'http://h2', applied: 3, seenAt: null }
  ]
  t.match(await readClusterStatus({ store: { role, hubs }, cluster }), {
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
  t.match(await readClusterStatus({ store: { role, hubs }, cluster }), { sequence: 10, hubs: [] })
})
