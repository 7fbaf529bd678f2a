import t from 'tap'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createReplicatedKeys, createReplicatedToken, rekeyCluster } from '../../lib/cluster/keys.js'
import { openStage } from '../support/store.js'
import { systemClock } from '../../lib/base/clock.js'
import { createHubClient } from '../../lib/cluster/forwarded.js'
import { openHubIdentity } from '../../lib/cluster/options.js'
import { anEtcd, withoutEtcd } from '../support/etcd.js'
import { freePort } from '../support/free-port.js'
import { type Hub, startHubs, testKey } from '../support/hubs.js'
import { startServe } from '../support/serve-process.js'
import { svc } from '../support/svc.js'
import { until } from '../support/until.js'
import { ownHub, signerOf } from '../support/hub-keys.js'
import { stoppedServer, wordsFor } from './kills.js'

t.test('two hubs have the same keys', async t => {
  const { store } = await openStage(t)
  const [one, other] = [createReplicatedKeys(store), createReplicatedKeys(store)]
  t.equal(one.session.current(), null)
  let removed = 0
  const session = await one.session.ensure(async () => void removed++)
  t.strictSame(await other.session.ensure(async () => void removed++), session)
  t.strictSame(other.session.current(), session)
  t.equal(removed, 1, 'only a new key ends the sessions')
  t.match(await one.variables.find(), { key: null, isMissing: true })
  const variables = await one.variables.create()
  t.strictSame(await other.variables.create(), variables)
  t.strictSame(await other.variables.find(), { key: variables })
  const { signers } = await one.server.signers(null)
  t.equal((await other.server.signers(null)).signers[0]?.verifierKey, signers[0]?.verifierKey)
})

t.test('the key of the server is replaced for all hubs', async t => {
  const { store } = await openStage(t)
  const { origin } = await createReplicatedKeys(store).server.signers(null)
  const { after } = await createReplicatedKeys(store).server.rotate(origin)
  const { signers } = await createReplicatedKeys(store).server.signers(origin)
  t.equal(signers[0]?.verifierKey, after.verifierKey)
  t.equal(signers.length, 2, 'the earlier key signs, too')
})

t.test('the admin token is the same on all hubs, and changes on all', async t => {
  const { store } = await openStage(t)
  const [one, other] = [createReplicatedToken(store), createReplicatedToken(store)]
  t.throws(() => one.current(), { code: 'no_admin_token' })
  await t.rejects(one.change('short'), { code: 'invalid_field' })
  await one.change('a-new-admin-token-0123456789')
  t.ok(other.verify('a-new-admin-token-0123456789'))
  t.notOk(other.verify('another'))
  await other.override('another')
  t.notOk(other.verify('another'), 'there is no token of one hub')
})

const signal = new AbortController().signal

t.test('every hub gets the key before it is used; only the leader gives it', async t => {
  const { hubs, cluster } = await startHubs(t, 3)
  const [first, second, third] = hubs as [Hub, Hub, Hub]
  const clientOf = async (hub: Hub) => {
    const { signer } = await openHubIdentity(hub.directory, { hub, key: testKey }, systemClock)
    return createHubClient({ signer, allowsHttp: false })
  }
  const seen = hubs.map(({ name, url }) => ({ name, url }))
  const given: string[] = []
  const store = {
    hubs: async () => seen.map(({ name }) => cluster.peer(name)),
    expectKey: async () => void given.push('h1'),
    rekey: async () => void given.push('used')
  }
  const needs = { store, client: await clientOf(first), own: 'h1' }
  await rekeyCluster(needs, seen)
  t.same(given, ['h1', 'used'])
  const keys = cluster.expected.map(line => line.split(' '))
  t.same(
    keys.map(([name]) => name),
    ['h2', 'h3']
  )
  t.equal(new Set(keys.map(([, key]) => key)).size, 1)
  t.match(keys[0]?.[1], /^[0-9a-f]{64}$/)

  await t.rejects(rekeyCluster(needs, seen.slice(1)), { code: 'hubs_changed' })
  const evil = [...seen.slice(0, 2), { name: 'h3', url: 'http://127.0.0.1:1' }]
  await t.rejects(rekeyCluster(needs, evil), { code: 'hubs_changed' }, 'an address that the operator has not seen')

  const asked = { method: 'POST', target: '/api/hub/key', body: { key: 'ab'.repeat(32) }, signal } as const
  const asFollower = await clientOf(third)
  await t.rejects(asFollower.json(cluster.peer('h2'), asked), { code: 'not_found' }, 'a hub that does not lead')
  const body = { key: 'no key'.padEnd(64) }
  await t.rejects(needs.client.json(cluster.peer('h2'), { ...asked, body }), { code: 'invalid_field' })
  t.equal((await second.client.post('/api/hub/key', asked.body)).status, 404, 'the admin token is no hub')

  await cluster.stopListening('h3')
  given.length = 0
  const silent = seen.map(({ name }) => ({ name, url: cluster.peer(name).url }))
  await t.rejects(rekeyCluster(needs, silent), {
    code: 'hub_without_key',
    message: /The key was not replaced: the hub "h3" did not take the new one.*svc cluster forget h3/
  })
  t.same(given, ['h1'], 'the key is not used')
})

t.test('svc cluster rekey, with real hubs on etcd', { skip: withoutEtcd() }, async t => {
  const etcd = await anEtcd(t)
  const cwd = t.testdir()
  const server = await stoppedServer(t, cwd)
  const { words, env: password } = wordsFor(etcd, cwd)
  const homes = { h1: server.home, h2: join(cwd, 'second') }
  const run = (home: string, ...command: string[]) => svc(command, { cwd, env: { ...password, SVC_HOME: home } })
  const keyIn = (home: string) => readFileSync(join(home, 'cluster.key'), 'utf8').trim()
  const ports = { h1: await freePort(), h2: await freePort() }
  const wordsOf = (name: 'h1' | 'h2') => [...words, '--hub-name', name, '--hub-url', `http://127.0.0.1:${ports[name]}`]
  const start = (name: 'h1' | 'h2') =>
    startServe(t, cwd, [...words.slice(0, 2), '--port', String(ports[name])], {
      ...password,
      SVC_HOME: homes[name]
    })
  t.equal((await run(homes.h1, 'cluster', 'init', ...wordsOf('h1'))).code, 0)
  const first = await start('h1')
  const old = join(cwd, 'carried.key')
  writeFileSync(old, `${keyIn(homes.h1)}\n`, { mode: 0o600 })
  const joined = await run(homes.h2, 'cluster', 'join', '--key-file', old, ...wordsOf('h2'))
  t.equal(joined.code, 0, joined.stderr)
  const alone = await run(homes.h1, 'cluster', 'rekey', '--yes')
  t.match(alone, { code: 1, stderr: /the hub "h2" did not take the new one/ }, 'all hubs must run')
  const second = await start('h2')
  const leads = async () => (await first.api<{ cluster: { role: string } }>('GET', '/api/cluster')).cluster.role
  await until(async () => (await leads()) === 'leader')

  const unasked = await run(homes.h1, 'cluster', 'rekey')
  t.match(unasked, { code: 1, stderr: /needs a confirmation/ })
  const elsewhere = await run(homes.h2, 'cluster', 'rekey', '--yes')
  t.match(elsewhere.stderr, /Run the command on the machine of "h1"/)
  const done = await run(homes.h1, 'cluster', 'rekey', '--yes')
  t.match(done, { code: 0, stdout: /h1 .*\nh2 .*\nThe cluster has a new key/ }, done.stderr)
  t.notMatch(done.stdout + done.stderr + first.said() + first.saidOnStderr(), keyIn(homes.h1), 'it is not printed')
  await until(() => keyIn(homes.h1) === keyIn(homes.h2) && !keyIn(homes.h1).includes('\n'), { what: 'one key' })
  t.not(keyIn(homes.h1), readFileSync(old, 'utf8').trim())
  await first.createProject({ name: 'After', deployPath: join(cwd, 'after') })
  await until(async () => (await second.api<unknown[]>('GET', '/api/projects')).length === 2)
  const { items } = await first.api<{ items: unknown[] }>('GET', '/api/audit?action=cluster.rekey')
  t.match(items, [{ actor: 'local', target: 'h1, h2' }])

  // Both start again with it, and the old one opens nothing.
  await second.stop()
  await first.stop()
  const again = await start('h2')
  await until(
    async () => (await again.api<{ cluster: { role: string } }>('GET', '/api/cluster')).cluster.role === 'leader'
  )
  const third = join(cwd, 'third')
  const late = await run(
    third,
    'cluster',
    'join',
    '--key-file',
    old,
    ...wordsOf('h2').slice(0, -4),
    '--hub-name',
    'h3',
    '--hub-url',
    'http://127.0.0.1:9'
  )
  t.match(late, { code: 1, stderr: /sealed with another cluster key/ })
  t.notOk(existsSync(join(third, 'cluster.json')))
})

const image = { method: 'GET', target: '/api/hub/image', signal: new AbortController().signal } as const

t.test('a hub gets a copy of the database, and nobody else does', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [first, second] = hubs as [Hub, Hub]
  const { signer } = await openHubIdentity(second.directory, { hub: second, key: testKey }, systemClock)
  const asSecond = createHubClient({ signer, allowsHttp: false })
  const chunks: Buffer[] = []
  for await (const chunk of await asSecond.ask(cluster.peer('h1'), image)) chunks.push(chunk as Buffer)
  t.equal(Buffer.concat(chunks).toString('latin1', 0, 15), 'SQLite format 3')

  const refused = { code: 'hub_refused' }
  const asStranger = createHubClient({ signer: signerOf('h2'), allowsHttp: false })
  await t.rejects(asStranger.ask(cluster.peer('h1'), image), refused, 'the name of a hub with another key')
  const meant = { ...cluster.peer('h1'), boot: ownHub(first).boot }
  await t.rejects(asSecond.ask(meant, image), { code: 'hub_out_of_step' }, 'meant for another start')
  const old = { ...cluster.peer('h1'), publicKey: null }
  await t.rejects(asSecond.ask(old, image), { code: 'hub_refused', message: /older svc/ }, 'the key of the cluster')

  cluster.forget('h2')
  await t.rejects(asSecond.ask(cluster.peer('h1'), image), refused, 'a hub that was removed')
  const passedOn = await second.client.post('/api/tags', { name: 'a', color: 'blue' })
  t.match(passedOn, { status: 403, body: { code: 'hub_refused' } }, 'it passes nothing on')
})

t.test('the local operator of a follower is believed on its own machine only', async t => {
  const { hubs } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const { createClient } = await import('../../lib/cli/client/client.js')
  const socketPath = follower.server.localSocket as string
  const local = createClient({ serverUrl: 'http://localhost', socketPath, token: null, env: {} })
  const reset = {
    method: 'POST',
    path: '/api/auth/reset',
    json: { newToken: 'A-new-token-0123456789-abcdef' }
  } as const
  await t.rejects(local.json(reset), { message: /Run the command on the machine of "h1"/ })
  await local.json({ method: 'POST', path: '/api/tags', json: { name: 'local', color: 'blue' } })
  const { body } = await leader.client.get('/api/audit?action=tag.create')
  t.match(body, { items: [{ actor: 'admin', ip: '127.0.0.1' }] }, 'for the leader it is the holder of the admin token')
})
