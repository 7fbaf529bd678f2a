/* The clock of a server is set back: what has expired stays so, and what was accepted then is not older than it is. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createSteadyClock } from '../../lib/base/clock.js'
import type { Project } from '../../lib/model/project.js'
import type { Statement } from '../../lib/model/statement.js'
import { serve } from '../../lib/server/serve.js'
import { createClient, eventsOf } from '../support/client.js'
import { adminToken, startServer } from '../support/server.js'
import { aKey, signedBy, statementOf, type TestKey } from '../support/signed-releases.js'
import { zipOf } from '../support/zips.js'

const dayMs = 24 * 60 * 60_000
const inDays = (days: number): string => new Date(Date.now() + days * dayMs).toISOString()

/** A server whose machine's clock can be set, and a project that takes only releases that `ana` has signed. */
async function stageOf(t: Test) {
  let offsetMs = 0
  const clockOf = (isTrusted = false) => createSteadyClock({ machine: () => Date.now() + offsetMs, isTrusted })
  const stage = await startServer(t, { clock: clockOf() })
  const shop = await stage.createProject('shop')
  const ana = aKey('ana')
  const { key } = (await stage.client.post('/api/signing-keys', { public: ana.row.public, name: 'ana' })).body
  await stage.client.put(`/api/projects/${shop.id}`, { ...shop, policy: { signatures: { require: 'refuse' } } })
  const { home, environment } = stage
  return {
    ...stage,
    shop,
    ana,
    keyId: key.id as string,
    set: (days: number): void => void (offsetMs = days * dayMs),
    read: () => readFileSync(join(stage.sites, 'shop/index.html'), 'utf8'),
    /** Starts another server on the same data directory, which knows only what is on the disk. */
    async restart(isTrusted = false) {
      const report = { info: () => {}, warn: () => {} }
      const clock = clockOf(isTrusted)
      const server = await serve({ home, port: 0, cwd: home.directory, environment, report, clock })
      return { server, as: (token: string) => createClient(() => server.url, token) }
    }
  }
}

type As = Awaited<ReturnType<typeof stageOf>>['as']

/** Pushes a page that says which release it is. */
async function push(as: As, { id, token }: Project, { ana, sequence, notAfter }: Wanted) {
  const files = { 'index.html': `release ${sequence}` }
  const { statement, signatures } = signedBy(statementOf(id, files, { sequence, notAfter }), ana)
  return as(token).upload([
    ['projectId', id],
    ['statement', statement],
    ['signature', signatures[0] as string],
    ['file', { filename: 'a.zip', bytes: await zipOf(files) }]
  ])
}

interface Wanted extends Pick<Statement, 'sequence' | 'notAfter'> {
  ana: TestKey
}

t.test('what has expired is not accepted because the clock was set back', async t => {
  const { server, as, shop, ana, set, read, restart } = await stageOf(t)
  const now = { ana, sequence: 1, notAfter: inDays(30) }
  t.match(eventsOf(await push(as, shop, now)).pop(), { status: 'success' })
  set(40)
  // The checkpoint after it has this time.
  t.match(eventsOf(await push(as, shop, { ana, sequence: 2, notAfter: inDays(70) })).pop(), { status: 'success' })
  const old = { ana, sequence: 3, notAfter: inDays(30) }
  const expired = { status: 403, body: { code: 'signature_expired', error: /has expired at/ } }
  t.match(await push(as, shop, old), expired)
  set(0)
  const behind = /The clock of the server says .*, but it has recorded .*: set the clock/
  t.match(await push(as, shop, old), { status: 403, body: { code: 'signature_expired', error: behind } })
  await server.stop({ wait: true })

  const second = await restart()
  t.match(
    await push(second.as, shop, old),
    { status: 403, body: { code: 'signature_expired', error: behind } },
    'after a start'
  )
  const admin = second.as(adminToken)
  const brief = aKey('brief')
  const trusted = { public: brief.row.public, name: 'brief', notAfter: inDays(20) }
  t.equal((await admin.post('/api/signing-keys', trusted)).status, 200)
  const byBrief = await push(second.as, shop, { ana: brief, sequence: 3, notAfter: inDays(70) })
  t.match(byBrief, { status: 403, body: { code: 'signature_expired', error: behind } }, 'a key that has expired')
  t.equal(read(), 'release 2')
  await second.server.stop({ wait: true })

  const third = await restart(true)
  t.teardown(() => third.server.stop({ wait: false }))
  t.match(
    eventsOf(await push(third.as, shop, old)).pop(),
    { status: 'success' },
    'the owner says that the clock is right'
  )
})

t.test('a release that was accepted while the clock was set back is as old as it is', async t => {
  const { as, client, shop, ana, keyId, set, read } = await stageOf(t)
  set(40)
  const first = eventsOf(await push(as, shop, { ana, sequence: 1, notAfter: null })).pop()
  set(0)
  // The key leaked on day 30. Its thief sets the clock back to before that.
  const stolen = eventsOf(await push(as, shop, { ana, sequence: 2, notAfter: null })).pop()
  t.match(stolen, { status: 'success' }, 'nobody knows yet')
  const { startTime } = (await client.get(`/api/logs/${stolen.deployId}`)).body
  t.ok(startTime < inDays(1), 'the record has the time of the clock')
  const since = inDays(30)
  const { body } = await client.post(`/api/signing-keys/${keyId}/revoke`, { since })
  t.same(
    (body.deployments as Array<{ id: string }>).map(({ id }) => id).sort(),
    [first.deployId, stolen.deployId].sort()
  )
  t.equal(body.key.revokedAt, since)
  for (const { deployId } of [first, stolen])
    t.match(await client.post(`/api/deployments/${deployId}/rollback`, {}), {
      status: 403,
      body: { code: 'signature_unknown_key' }
    })
  t.equal(read(), 'release 2')
})

t.test('a key that is revoked while the clock is set back keeps what it signed before', async t => {
  const { as, client, shop, ana, keyId, set, read } = await stageOf(t)
  set(40)
  const first = eventsOf(await push(as, shop, { ana, sequence: 1, notAfter: null })).pop()
  t.match(eventsOf(await push(as, shop, { ana, sequence: 2, notAfter: null })).pop(), { status: 'success' })
  set(0)
  const { body } = await client.post(`/api/signing-keys/${keyId}/revoke`, {})
  t.ok(body.key.revokedAt > inDays(39), 'as of the time that the server has recorded')
  const refused = await push(as, shop, { ana, sequence: 3, notAfter: null })
  t.match(refused, { status: 403, body: { code: 'signature_unknown_key' } })
  t.match(eventsOf(await client.post(`/api/deployments/${first.deployId}/rollback`, {})).pop(), { status: 'success' })
  t.equal(read(), 'release 1')
})
