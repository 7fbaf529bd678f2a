import t from 'tap'
import { get, type IncomingMessage } from 'node:http'
import { once } from 'node:events'
import { json } from '../../lib/http/core/route.js'
import { createAudit } from '../../lib/core/audit/audit.js'
import { createSettings } from '../../lib/projects/settings.js'
import { createProbe } from '../../lib/operate/machine/probe.js'
import { row } from '../../lib/api/route.js'
import { createEarlyFront, createListener, type ListenerFront, viewOf } from '../../lib/server/listener.js'
import { systemActor } from '../../lib/model/audit.js'
import { openStage } from '../support/store.js'

type OpenedStage = Awaited<ReturnType<typeof openStage>>

function earlyFrontOf({ store, clock, directory }: OpenedStage): ListenerFront {
  const probe = createProbe({ store, clock, version: '1.2.3', startedAtMs: 0, directory, hasToken: () => true })
  return createEarlyFront(store, probe)
}

t.test('before the front is loaded, the lists of the settings are already those of the store', async t => {
  const stage = await openStage(t)
  const settings = createSettings(stage)
  const keys = ['trusted_proxies', 'allowed_hosts'] as const
  for (const key of keys) t.same(earlyFrontOf(stage).settings.list(key), settings.list(key), `the default of ${key}`)
  const values = { trusted_proxies: '10.0.0.0/8, 192.0.2.1', allowed_hosts: 'a.example.org b.example.org' }
  await settings.update(settings.check(values), systemActor)
  for (const key of keys) {
    t.equal(settings.list(key).length, 2)
    t.same(earlyFrontOf(stage).settings.list(key), settings.list(key), key)
  }
  await settings.update(settings.check({ trusted_proxies: '' }), systemActor)
  t.same(earlyFrontOf(stage).settings.list('trusted_proxies'), [], 'an empty list is not the default')
})

t.test('answers health before the front is loaded, and keeps all other requests until it is', async t => {
  const stage = await openStage(t)
  const settings = createSettings({ ...stage, audit: createAudit({ ...stage, keepDays: () => 400, onError() {} }) })
  await settings.update(settings.check({ allowed_hosts: 'deploy.example.org' }), systemActor)
  const early = earlyFrontOf(stage)
  let current = early
  const http = createListener(
    viewOf(() => current),
    { base: '', publicUrl: null, log() {} }
  )
  t.teardown(() => http.close({ graceMs: 0 }))
  const { port } = await http.listen({ host: '127.0.0.1', port: 0 })
  async function ask(path: string, host = 'deploy.example.org'): Promise<IncomingMessage> {
    const [answer] = (await once(get({ port, path, headers: { host }, agent: false }), 'response')) as [IncomingMessage]
    return answer.resume()
  }

  t.equal((await ask('/api/health')).statusCode, 200)
  t.equal((await ask('/api/health', 'evil.test')).statusCode, 421, 'also by another name')
  const waiting = ask('/api/who')
  t.equal(await Promise.race([waiting, ask('/api/health').then(() => 'waits')]), 'waits')

  const asked: string[] = []
  const late = { ...early, bearer: { authorise: (auth: string) => (asked.push(auth), caller) } }
  current = late as unknown as ListenerFront
  http.complete({
    routes: [row('GET', '/api/who', 'viewer', 'none', 'reads', async ({ actor }) => json({ ...actor }))]
  })
  t.equal((await waiting).statusCode, 200)
  t.same(asked, ['viewer'], 'the caller is known by the front')
})

const caller = { name: 'tok', role: 'viewer' }

t.test('knows no caller before the front is loaded', async t => {
  const { bearer } = earlyFrontOf(await openStage(t))
  const client = { witnessed: '192.0.2.7' }
  const facts = { client, headers: {}, query: new URLSearchParams(), method: 'GET', path: '/' }
  t.match(bearer.authorise('public', facts as never), { role: 'anonymous', projects: null, ip: '192.0.2.7' })
  t.throws(() => bearer.authorise('admin', facts as never), /Nobody is known yet/)
})
