import t from 'tap'
import { type Begun, beginWork, endWork, noteRestore } from '../../lib/server/begin.js'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { locateHome } from '../../lib/base/config/home.js'
import { serve } from '../../lib/server/serve.js'
import type { AuditEvent } from '../../lib/model/audit.js'
import { createClient, eventsOf } from '../support/client.js'
import { adminToken, startServer } from '../support/server.js'
import { aKey, signedBy, statementOf, type TestKey } from '../support/signed-releases.js'
import { matching } from '../support/sentences/matching.js'
import { serverSays } from '../support/sentences/server.js'
import { svc } from '../support/svc.js'
import { zipOf } from '../support/zips.js'
import { aStore } from '../core/store/stage.js'

/** Services that note what they are asked to do; `fails` names those that cannot. */
function noting(fails: readonly string[] = []) {
  const said: string[] = []
  const note = (what: string) => async (): Promise<void> => {
    said.push(what)
    if (fails.includes(what)) throw new Error(what)
  }
  const doors: Record<string, object> = {
    terminals: { opened: () => ({ stop: note('terminals.stop') }) },
    logs: { asked: async () => ({ viewer: { close: note('logs.viewer.close') } }) }
  }
  const part = (name: string) => doors[name] ?? new Proxy({}, { get: (_, act: string) => note(`${name}.${act}`) })
  const parts = new Proxy({}, { get: (_, name: string) => part(name) })
  return { begun: { front: parts, services: parts } as unknown as Begun, said, note }
}

t.test('whatever begins ends, in a fixed order', async t => {
  const { begun, said, note } = noting()
  await beginWork(begun, { store: null as never, home: { directory: t.testdir() } as never })
  const started = said.filter(each => each.endsWith('.start')).map(each => each.replace('.start', ''))
  t.match(
    said,
    ['headers.sealStored', 'deployer.recover', 'pieces.load', 'fleet.start'],
    'what was left is mended first'
  )
  said.length = 0
  await endWork(begun, { deployments: note('deployments'), replies: note('replies'), graceMs: 0 })
  t.match(said, ['terminals.stop', 'deployments', 'fleet.stop'], 'nodes are needed until the deployments have ended')
  for (const name of started) t.ok(said.includes(`${name}.stop`), `${name} ends`)
  t.ok(said.indexOf('replies') < said.indexOf('webhook.stop'), 'the replies may end while messages are sent')
})

t.test('what nobody has needed is not loaded to end it', async t => {
  const { begun, said, note } = noting()
  const none = { opened: () => undefined, asked: () => undefined }
  const services = new Proxy(begun.services, {
    get: (all, name) => (name === 'terminals' || name === 'logs' ? none : Reflect.get(all, name))
  })
  await endWork({ ...begun, services }, { deployments: note('deployments'), graceMs: 0 })
  t.ok(said.includes('deployments') && said.includes('webhook.stop'))
})

t.test('terminals that are being loaded end, too', async t => {
  const { begun, said, note } = noting()
  const late = { opened: () => undefined, asked: async () => ({ stop: note('terminals.stop') }) }
  const services = new Proxy(begun.services, {
    get: (all, name) => (name === 'terminals' ? late : Reflect.get(all, name))
  })
  await endWork({ ...begun, services }, { deployments: note('deployments'), graceMs: 0 })
  t.ok(said.includes('terminals.stop'))
})

t.test('each part ends, even if another one cannot', async t => {
  const all = noting()
  const ending = { deployments: all.note('deployments'), graceMs: 0 }
  await endWork(all.begun, ending)
  for (const broken of all.said.filter(each => each !== 'deployments')) {
    const { begun, said, note } = noting([broken])
    await t.rejects(endWork(begun, { deployments: note('deployments'), graceMs: 0 }), { message: broken })
    t.strictSame([...said].sort(), [...all.said].sort(), `after ${broken}`)
  }
})

/* A restore of an older backup: what was revoked since stays revoked, and what was signed since is not deployed again. */

t.test('a restore over a data directory keeps its revocations and its newest releases', async t => {
  const stage = await startServer(t)
  const { client, home, sites } = stage
  const [shop, blog] = [await stage.createProject('shop'), await stage.createProject('blog')]
  const [ana, bo] = [aKey('ana'), aKey('bo')]
  const trust = async ({ row }: TestKey) =>
    (await client.post('/api/signing-keys', { public: row.public, name: row.name })).body.key.id as string
  const anaId = await trust(ana)
  await trust(bo)
  for (const { id } of [shop, blog]) {
    await client.put(`/api/projects/${id}`, { policy: { signatures: { require: 'refuse' } } })
  }
  const push = async (as: typeof stage.as, key: TestKey, sequence: number, { id, token } = shop) => {
    const files = { 'index.html': `${key.row.name} ${sequence}` }
    const { statement, signatures } = signedBy(statementOf(id, files, { sequence }), key)
    return as(token).upload([
      ['projectId', id],
      ['statement', statement],
      ['signature', signatures[0] as string],
      ['file', { filename: 'a.zip', bytes: await zipOf(files) }]
    ])
  }
  t.match(eventsOf(await push(stage.as, bo, 100)).pop(), { status: 'success' })
  const cwd = join(sites, '..')
  const env = { SVC_HOME: home.directory }
  t.equal((await svc(['backup', 'all.zip'], { cwd, env })).code, 0)

  t.match(eventsOf(await push(stage.as, bo, 101)).pop(), { status: 'success' })
  t.match(eventsOf(await push(stage.as, bo, 101, blog)).pop(), { status: 'success' })
  t.equal((await client.post(`/api/signing-keys/${anaId}/revoke`, {})).status, 200)
  await stage.server.stop({ wait: true })
  const signers = join(home.directory, 'keys/allowed_signers')
  mkdirSync(join(home.directory, 'keys'), { recursive: true, mode: 0o700 })
  writeFileSync(signers, '# all of them were removed\n', { mode: 0o600 })

  const restored = await svc(['restore', '--force', 'all.zip'], { cwd, env })
  t.match(restored, { code: 0, stderr: /keys\/allowed_signers was left as it was/ }, restored.stderr)
  t.match(`${restored.stdout}${restored.stderr}`, /1 key revoked before the restore stay so/)
  // Once more, before a start has applied it.
  t.equal((await svc(['restore', '--force', 'all.zip'], { cwd, env })).code, 0)
  t.equal(readFileSync(signers, 'utf8'), '# all of them were removed\n')

  const report = { info: () => {}, warn: () => {} }
  const server = await serve({ home, port: 0, cwd, environment: { ...stage.environment }, report })
  t.teardown(() => server.stop({ wait: false }))
  const as = ((token: string) => createClient(() => server.url, token)) as typeof stage.as
  const keys = (await as(adminToken).get('/api/signing-keys')).body.items
  t.match(keys, [
    { name: 'ana', revokedAt: /^20/ },
    { name: 'bo', revokedAt: null }
  ])
  const [entry] = (await as(adminToken).get('/api/audit?action=backup.restore')).body.items
  t.match(entry, { actor: 'system', detail: /^a backup of 20.*; keys revoked again: ana SHA256:/ })
  t.match(await push(as, ana, 200), { status: 403, body: { code: 'signature_unknown_key' } })
  t.match(
    await push(as, bo, 100),
    { status: 403, body: { code: 'signature_replayed' } },
    'it was signed before the newest'
  )
  t.match(
    await push(as, bo, 100, blog),
    { status: 403, body: { code: 'signature_replayed' } },
    'also if the backup has no release of the project'
  )
  t.match(eventsOf(await push(as, bo, 101)).pop(), { status: 'success' })
  t.equal(readFileSync(join(sites, 'shop/index.html'), 'utf8'), 'bo 101')

  // Elsewhere nobody knows what was revoked.
  const directory = join(cwd, 'elsewhere')
  const elsewhere = await svc(['restore', 'all.zip'], { cwd, env: { SVC_HOME: directory } })
  t.match(elsewhere, {
    code: 0,
    stderr: /the backup trusts 2 keys to sign releases: ana, bo\. It does not know what was/
  })
  rmSync(directory, { recursive: true })
})

t.test('a start refuses a damaged list of what was revoked before a restore', async t => {
  const store = await aStore(t)
  const audit = { within: () => t.fail('nothing was restored') }
  for (const text of [
    '{',
    '[]',
    '{"backupAt":"2026-01-01T00:00:00.000Z"}',
    '{"backupAt":1,"revoked":[],"sequences":{}}'
  ]) {
    const home = locateHome({ SVC_HOME: t.testdir({ 'svc.restored': text }) })
    await t.rejects(
      noteRestore({ store, home, audit }),
      { code: 'broken_config', message: matching(serverSays.restoredIsDamaged) },
      text
    )
  }
  const home = locateHome({ SVC_HOME: t.testdir({ 'svc.restored': {} }) })
  await t.rejects(noteRestore({ store, home, audit }), {
    code: 'broken_config',
    message: matching(serverSays.restoredIsDamaged)
  })
})

t.test('a start without a restore notes nothing', async t => {
  const store = await aStore(t)
  const home = locateHome({ SVC_HOME: t.testdir({ 'svc.restored': '' }) })
  const events: AuditEvent[] = []
  await noteRestore({ store, home, audit: { within: (_, event) => void events.push(event) } })
  t.strictSame(events, [])
})
