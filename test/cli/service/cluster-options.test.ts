import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { clusterFileOf, clusterOptionsOf, endpointsOf } from '../../../lib/cli/service/cluster-options.js'
import { locateHome } from '../../../lib/base/config/home.js'

const none = {
  store: undefined,
  'hub-name': undefined,
  'hub-url': undefined,
  'hub-ca': undefined,
  'allow-http': false,
  'etcd-ca': undefined,
  'etcd-cert': undefined,
  'etcd-key': undefined,
  'etcd-user': undefined,
  'etcd-password-file': undefined
}
const words = { ...none, store: 'etcd:https://e1:2379', 'hub-name': 'h1', 'hub-url': 'https://h1:5431/' }

t.test('three members or one: two stop when either does', async t => {
  t.strictSame(endpointsOf('etcd:https://e1:2379, https://e2:2379,https://e3:2379').length, 3)
  t.strictSame(endpointsOf('etcd:http://127.0.0.1:2379'), ['http://127.0.0.1:2379'])
  t.throws(() => endpointsOf('etcd:https://e1:2379,https://e2:2379'), { message: /three or one/ })
  t.throws(() => endpointsOf('etcd:https://e1,https://e2,https://e3,https://e4'), { message: /three or one/ })
  for (const wrong of ['https://e1', 'etcd:e1:2379', 'etcd:https://svc:secret@e1', 'etcd:https://e1/path']) {
    t.throws(() => endpointsOf(wrong), { message: /--store/ }, wrong)
  }
})

t.test('options take precedence over cluster.json', async t => {
  const known = clusterFileOf(words, { known: null, cwd: '/cwd' })
  t.match(known, { cluster: 'svc', hub: { name: 'h1', url: 'https://h1:5431' }, hasNode: true })
  const changed = { ...none, 'hub-url': 'https://other', 'etcd-ca': 'ca.pem' }
  t.match(clusterFileOf(changed, { known, cwd: '/cwd' }), {
    hub: { name: 'h1', url: 'https://other' },
    etcd: { endpoints: ['https://e1:2379'], caFile: '/cwd/ca.pem' }
  })
  const open = { ...words, 'hub-url': 'http://192.0.2.9:5431' }
  t.throws(() => clusterFileOf(open, { known: null, cwd: '/' }), { message: /is not encrypted/ })
  t.throws(() => clusterFileOf(none, { known: { ...known, hub: { name: 'h1', url: 'http://h1' } }, cwd: '/' }), {
    message: /is not encrypted/
  })
  const allowed = clusterFileOf({ ...open, 'allow-http': true }, { known: null, cwd: '/' })
  t.equal(clusterFileOf(none, { known: allowed, cwd: '/' }).allowsHttp, true, 'it is kept in cluster.json')
  for (const loopback of ['http://127.0.0.1:1', 'http://[::1]:1', 'http://localhost:1']) {
    t.ok(clusterFileOf({ ...words, 'hub-url': loopback }, { known: null, cwd: '/' }))
  }
  for (const missing of ['store', 'hub-name', 'hub-url'] as const) {
    t.throws(() => clusterFileOf({ ...words, [missing]: undefined }, { known: null, cwd: '/' }), {
      message: /is missing/
    })
  }
  t.throws(() => clusterFileOf({ ...words, 'hub-name': 'H 1' }, { known: null, cwd: '/' }), { message: /lower-case/ })
})

t.test('secrets come from files and the environment, and are sent encrypted only', async t => {
  const directory = t.testdir()
  writeFileSync(join(directory, 'pw'), 'from-a-file\n')
  const home = locateHome({ SVC_HOME: directory })
  const keys = [Buffer.alloc(32)] as const
  const file = clusterFileOf(
    { ...words, 'etcd-user': 'svc', 'etcd-password-file': 'pw' },
    { known: null, cwd: directory }
  )
  t.match((await clusterOptionsOf(file, { home, env: {}, keys })).etcd, { user: 'svc', password: 'from-a-file' })
  const plain = clusterFileOf({ ...words, store: 'etcd:http://e1:2379' }, { known: null, cwd: directory })
  const env = { SVC_ETCD_USER: 'svc', SVC_ETCD_PASSWORD: 'from-the-environment' }
  await t.rejects(clusterOptionsOf(plain, { home, env, keys }), { message: /not encrypted/ })
  t.match((await clusterOptionsOf(clusterFileOf(words, { known: null, cwd: '/' }), { home, env, keys })).etcd, {
    user: 'svc',
    password: 'from-the-environment'
  })
})
