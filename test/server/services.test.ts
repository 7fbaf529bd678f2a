import t from 'tap'
import type { Caller } from '../../lib/access/bearer.js'
import { ensureHome, locateHome } from '../../lib/base/config/home.js'
import { openAdminToken } from '../../lib/access/admin-token.js'
import { createFront } from '../../lib/server/front.js'
import { createServices } from '../../lib/server/services.js'
import { systemActor } from '../../lib/model/audit.js'
import { openStore } from '../../lib/core/store/durable-store.js'
import { randomIds } from '../../lib/base/digests.js'
import { setClock } from '../support/clock.js'

t.test('connects the services: a setting reaches the bearer, and a project its token', async t => {
  const home = locateHome({ SVC_HOME: t.testdir() })
  await ensureHome(home)
  const clock = setClock()
  const store = await openStore({ directory: home.directory, clock })
  t.teardown(() => store.close())
  const admin = await openAdminToken({ home, ids: randomIds })
  const world = {
    store,
    home,
    clock,
    ids: randomIds,
    environment: {},
    terminal: false,
    allowSystemPaths: false,
    version: 'dev',
    base: '',
    publicUrl: null,
    log: () => {}
  }
  const front = createFront(world, admin)
  const { settings, bearer } = front
  const { api } = createServices(world, front)
  const client = { address: '192.0.2.1', witnessed: '192.0.2.1', viaProxy: false, local: false }
  const authorise = (token: string) => () =>
    bearer.authorise('upload', {
      method: 'POST',
      path: '/api/deploy/upload',
      headers: { authorization: `Bearer ${token}` },
      query: new URLSearchParams(),
      client
    }) as Caller

  t.throws(authorise('global-token'), { kind: 'unauthorized', code: 'unauthorized' })
  await settings.update(settings.check({ global_deploy_token: 'global-token' }), systemActor)
  t.equal(authorise('global-token')().role, 'global')
  const project = await api.projects.create({ name: 'a', deployPath: '/srv/some/where' }, systemActor)
  t.equal(authorise(project.token)().projectId, project.id)
  await settings.update(settings.check({ allowed_ips: '10.0.0.0/8' }), systemActor)
  t.throws(authorise('global-token'), { kind: 'forbidden', code: 'address_not_allowed' })
  t.match(api.listAudit({ limit: 10, seenBy: undefined }), [
    { target: 'allowed_ips' },
    { action: 'project.create' },
    {}
  ])
})
