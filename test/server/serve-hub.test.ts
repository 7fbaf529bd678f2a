import t from 'tap'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClient, formOf } from '../support/client.js'
import { zipOf } from '../support/zip.js'
import { type Hub, startHubs } from '../support/hubs.js'
import { adminToken } from '../support/server.js'
import { type SignedInSession, signIn } from '../support/session.js'
import { deploySays } from '../support/sentences/deploy.js'
import { until } from '../support/until.js'
import type { HubRole } from '../../lib/cluster/replicated-store.js'
import { createClusterView, giveUpOn } from '../../lib/server/serve-hub.js'
import { Refusal } from '../../lib/base/errors.js'

t.test('a follower answers reads itself and lets the leader change things', async t => {
  const { hubs, sites } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const created = await follower.client.post('/api/projects', { name: 'Shop', deployPath: `${sites}/shop` })
  t.equal(created.status, 200)
  const { id } = created.body.project ?? created.body
  const seen = await follower.client.get(`/api/projects/${id}`)
  t.equal(seen.status, 200, 'the follower has what its client wrote')
  t.equal((await leader.client.get(`/api/projects/${id}`)).status, 200)
})

t.test('says that nobody leads, and answers reads with their age', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [, follower] = hubs as [Hub, Hub]
  cluster.lead(null)
  const refused = await follower.client.post('/api/projects', { name: 'Shop', deployPath: '/srv/shop' })
  t.equal(refused.status, 503)
  t.equal(refused.body.code, 'no_leader')
  t.match(refused.headers['retry-after'], /^\d+$/)
  const read = await follower.client.get('/api/projects')
  t.equal(read.status, 200)
  t.match(read.headers['x-svc-stale'], /^\d+$/)
})

t.test('the leader sees the address of the client of a follower, and believes nobody else', async t => {
  const { hubs } = await startHubs(t)
  const [leader, follower] = hubs as [Hub, Hub]
  const fake = Buffer.from(
    JSON.stringify({
      address: 'local',
      witnessed: 'local',
      viaProxy: false,
      local: true,
      hub: { name: 'h2', isOwn: true, isSecure: true }
    })
  ).toString('base64url')
  const anonymous = { 'svc-forwarded': `${fake}.AAAA`, authorization: '' }
  const reset = await leader.client.send('POST', '/api/auth/reset', { headers: anonymous, body: '{}' })
  t.not(reset.status, 200, 'a forged header makes nobody the local operator')
  t.equal((await leader.client.get('/api/hub/image', anonymous)).status, 404)
  await follower.client.post('/api/auth/login', { token: 'wrong-token-0123456789' })
  await follower.client.post('/api/projects', { name: 'Shop', deployPath: '/srv/shop-of-a-test' })
  const log = await leader.client.get('/api/audit?action=project.create')
  t.match(log.body, { items: [{ ip: '127.0.0.1', actor: 'admin' }] })
})

t.test('another hub continues when the leader changes', async t => {
  const { hubs, cluster } = await startHubs(t)
  const [first, second] = hubs as [Hub, Hub]
  await first.client.post('/api/categories', { name: 'One', color: 'blue' })
  cluster.lead('h2')
  const created = await first.client.post('/api/categories', { name: 'Two', color: 'blue' })
  t.equal(created.status, 200)
  await until(() => second.told.info.some(line => /leads the cluster/.test(line)))
  t.match((await second.client.get('/api/categories')).body, [{ name: 'One' }, { name: 'Two' }])
  t.strictSame(second.told.warn, [])
})

/** Places a project on a node that is never there, and begins to upload through a hub. */
async function beginUpload(hub: Hub, site: string, contents: Buffer | string = randomBytes(3_000_000)) {
  const { client } = hub
  const { body } = await client.post('/api/projects', { name: 'Shop', deployPath: site })
  const project = body.project ?? body
  const { body: enrolled } = await client.post('/api/enrollments', { name: 'n1', labels: {}, seconds: 600 })
  const { publicKey } = generateKeyPairSync('ed25519')
  const key = publicKey.export({ type: 'spki', format: 'der' }).subarray(12).toString('base64')
  const node = { token: enrolled.token, publicKey: key, name: 'n1', labels: {}, version: '1.0.0' }
  t.equal((await client.post('/api/agent/enroll', node)).status, 200)
  const placed = await client.patch(`/api/projects/${project.id}/placements`, { add: [{ node: 'n1' }], remove: [] })
  t.equal(placed.status, 200, placed.text)
  const bytes = await zipOf({ 'index.html': 'hello', 'big.bin': contents })
  const { contentType, body: form } = formOf([
    ['projectId', project.id],
    ['file', { filename: 'site.zip', bytes }]
  ])
  const pusher = createClient(() => hub.url, project.token)
  return {
    project,
    reply: await pusher.open('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body: form })
  }
}

t.test('an upload passes through a follower, and its archive is on two hubs, and then on all', async t => {
  const { hubs, sites } = await startHubs(t, 3)
  const [first, second, third] = hubs as [Hub, Hub, Hub]
  const { project, reply } = await beginUpload(second, `${sites}/shop`)
  t.equal(reply.statusCode, 200)
  t.teardown(() => reply.destroy())
  const [line] = (await once(reply, 'data')) as [Buffer]
  t.match(String(line), /"event":"log"/)
  const [{ id }] = (await second.client.get(`/api/logs?projectId=${project.id}`)).body as [{ id: string }]
  const has = (hub: Hub): boolean => existsSync(`${hub.directory}/deployments/${id}.zip`)
  t.ok(has(first) && (has(second) || has(third)))
  await until(() => has(second) && has(third))
})

t.test('a deployment without a second copy is refused, with the time to wait', async t => {
  const { hubs, sites, cluster } = await startHubs(t, 2)
  const [first] = hubs as [Hub]
  await cluster.stopListening('h2')
  const { reply } = await beginUpload(first, `${sites}/shop`)
  t.match(reply, { statusCode: 503, headers: { 'retry-after': '10' } })
  const [text] = (await once(reply, 'data')) as [Buffer]
  t.match(String(text), /no_second_copy/)
})

t.test('a project without a node is not deployed: another machine may lead tomorrow', async t => {
  const { hubs, sites } = await startHubs(t)
  const [, follower] = hubs as [Hub, Hub]
  const { body } = await follower.client.post('/api/projects', { name: 'Shop', deployPath: `${sites}/shop` })
  const project = body.project ?? body
  const reply = await createClient(() => follower.url, project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'hello' }) }]
  ])
  t.match(reply, { status: 409, body: { code: 'not_placed' } })
})

t.test('a deployment whose rollout did not begin before the leader changed says that no node has changed', async t => {
  const { hubs, sites, cluster } = await startHubs(t)
  const [, second] = hubs as [Hub, Hub]
  // The leader reads the archive for a while before the rollout begins.
  const { project, reply } = await beginUpload(second, `${sites}/shop`, '0'.repeat(150_000_000))
  t.teardown(() => reply.destroy())
  const record = async () =>
    ((await second.client.get(`/api/logs?projectId=${project.id}`)).body as Array<Record<string, unknown>>)[0]
  await until(async () => (await record())?.['status'] === 'running')
  cluster.lead('h2')
  await until(async () => (await record())?.['status'] === 'failed')
  t.match(await record(), { errorMessage: deploySays.ledBeforeRollout })
  t.strictSame((await second.client.get('/api/rollouts')).body, { success: true, rollouts: [] })
})

/** Creates a log source; returns the path of its stream, when a follower has it. */
async function streamOf({ hubs, sites }: { hubs: Hub[]; sites: string }): Promise<string> {
  const [leader, follower] = hubs as [Hub, Hub]
  const log = join(sites, 'app.log')
  writeFileSync(log, 'one\n')
  const created = await leader.client.post('/api/projects', { name: 'Shop', deployPath: join(sites, 'shop') })
  const { id: projectId } = created.body.project ?? created.body
  const { body } = await leader.client.post(`/api/projects/${projectId}/log-sources`, { items: [{ filePath: log }] })
  await until(async () => (await follower.client.get('/api/log-sources')).body.items.length === 1)
  return `/api/log-sources/${body.items[0].id}/stream`
}

t.test('a stream of a follower ends when its token is revoked on the leader', async t => {
  const stage = await startHubs(t)
  const [leader, follower] = stage.hubs as [Hub, Hub]
  const path = await streamOf(stage)
  const clients: string[] = []
  for (const name of ['revoked', 'kept'])
    clients.push((await leader.client.post('/api/tokens', { name, role: 'viewer' })).body.token)
  const open = (token: string) => createClient(() => follower.url, token).open('GET', path)
  const [ending, staying] = await Promise.all(clients.map(open))
  t.equal(ending?.statusCode, 200)
  let isEnded = false
  ending?.on('error', () => {}).once('close', () => (isEnded = true))
  staying?.on('error', () => {})
  for (const stream of [ending, staying]) stream?.resume()
  const { items = [], tokens = items } = (await leader.client.get('/api/tokens')).body
  const revoked = tokens.find(({ name }: { name: string }) => name === 'revoked')
  t.equal((await leader.client.send('DELETE', `/api/tokens/${revoked.id}`)).status, 200)
  await until(() => isEnded, { what: 'the end of the stream' })
  t.equal(staying?.destroyed, false, 'others go on')
  staying?.destroy()
})

t.test('streams of a follower end with their session', async t => {
  const stage = await startHubs(t)
  const [leader, follower] = stage.hubs as [Hub, Hub]
  const path = await streamOf(stage)
  const browser = createClient(() => follower.url, null)
  const ended = new Set<string>()

  /** Signs in at the follower and opens a stream there. */
  async function begin(name: string): Promise<SignedInSession> {
    const session = await signIn(browser)
    const stream = await browser.open('GET', path, { headers: session.headers })
    t.equal(stream.statusCode, 200)
    stream.on('error', () => {}).once('close', () => ended.add(name))
    stream.resume()
    t.teardown(() => stream.destroy())
    return session
  }
  const out = await begin('signed out')
  const revoked = await begin('revoked')
  const last = await begin('last')
  const endedAre = (names: string[]) =>
    until(() => ended.size === names.length).then(() => t.ok(names.every(name => ended.has(name))))

  const signedOut = await browser.send('DELETE', '/api/auth/session', { headers: out.headers })
  t.equal(signedOut.status, 200)
  await endedAre(['signed out'])
  t.equal((await leader.client.send('DELETE', `/api/sessions/${revoked.id}`)).status, 200)
  await endedAre(['signed out', 'revoked'])
  t.equal((await browser.get('/api/projects', last.headers)).status, 200, 'others go on')
  const tokens = { oldToken: adminToken, newToken: 'another-admin-token-0123456789' }
  const changed = await leader.client.post('/api/settings/token', tokens)
  t.equal(changed.status, 200, changed.text)
  await endedAre(['signed out', 'revoked', 'last'])
})

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

const hub = { name: 'h2', url: 'https://h2.example' }

t.test('another hub gives up a target, and its answer is read like that of a stranger', async t => {
  const asked: unknown[] = []
  const give = (answer: unknown, name = 'h2'): ReturnType<typeof giveUpOn> =>
    giveUpOn(
      {
        store: { peers: { find: each => (each === hub.name ? (hub as never) : null) } },
        client: {
          async json(_, { method, target }) {
            asked.push(`${method} ${target}`)
            if (answer instanceof Error) throw answer
            return answer
          }
        }
      },
      name,
      'dep_a'
    )
  const refused = (code: string) => new Refusal('unavailable', code, `what h2 says of ${code}`)
  t.strictSame(await give({ deployId: 'dep_other', target: '/srv/site' }), { deployId: 'dep_a', target: '/srv/site' })
  t.strictSame(asked, ['POST /api/hub/unfinished/dep_a'])
  t.strictSame(await give({ target: null }), { deployId: 'dep_a', target: null })
  await t.rejects(give({ target: 'a\nb' }), { code: 'invalid_field' })
  await t.rejects(give('nothing'), Refusal)
  await t.rejects(give(refused('target_there')), { kind: 'conflict', message: 'what h2 says of target_there' })
  await t.rejects(give(refused('not_found')), { kind: 'not_found', code: 'not_found' })
  await t.rejects(give(refused('hub_unreachable')), { kind: 'unavailable', code: 'hub_unreachable' })
  await t.rejects(give({}, 'h9'), { kind: 'not_found', code: 'not_found' })
})
