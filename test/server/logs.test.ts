import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createActivity } from '../../lib/base/async.js'
import { ensureHome, locateHome } from '../../lib/base/config/home.js'
import { createLogs } from '../../lib/server/logs.js'
import { secretHomes } from '../../lib/server/services.js'
import type { World } from '../../lib/server/world.js'
import { systemActor } from '../../lib/model/audit.js'
import { notFound } from '../../lib/base/errors.js'
import { openStage } from '../support/store.js'
import { insertProject } from '../../lib/core/store/tables/projects.js'
import { aProject } from '../core/store/stage.js'

/** Creates the log services of a server, whose data directory may be that of an agent below a hub. */
async function logStage(t: Parameters<typeof openStage>[0], below = 'home', { isBelowHub = false } = {}) {
  const stage = await openStage(t)
  const { store, directory, audit } = stage
  const home = locateHome({ SVC_HOME: join(directory, below) }, directory)
  mkdirSync(join(directory, below), { recursive: true })
  if (isBelowHub) writeFileSync(join(directory, below, '..', 'cluster.json'), '{}')
  await ensureHome(home)
  const [followers, searches] = [createActivity(), createActivity()]
  const projects = {
    get(id: string) {
      if (id !== 'prj_a') throw notFound('Project', id)
      return aProject({ id })
    }
  }
  await store.write(tx => insertProject(tx, aProject({ id: 'prj_a' })))
  const key = join(directory, 'tls.key')
  const world = { ...stage, home, secretFiles: [key] } as unknown as World
  const logs = createLogs(world, {
    homes: secretHomes(home.directory),
    audit: audit as never,
    projects,
    followers,
    searches
  })
  return { ...stage, home, key, followers, searches, logs }
}

const named = { asked: 'x', field: 'path' }

t.test('never shows the secrets of the server, wherever they are', async t => {
  const { logs, home, key, directory } = await logStage(t)
  for (const path of [home.configFile, key, join(home.directory, 'svc.db'), join(home.keys, 'session.key')])
    t.throws(() => logs.secrets.checkPath(path, named), { code: 'denied_path' }, path)
  t.doesNotThrow(() => logs.secrets.checkPath(join(directory, 'app.log'), named))
})

t.test('nor those of the hub above an agent', async t => {
  const { logs, directory } = await logStage(t, 'hub/node', { isBelowHub: true })
  t.throws(() => logs.secrets.checkPath(join(directory, 'hub/config.json'), named), { code: 'denied_path' })
  const alone = await logStage(t, 'hub/node')
  const beside = join(alone.directory, 'hub/config.json')
  t.doesNotThrow(() => alone.logs.secrets.checkPath(beside, named), 'without a hub it is any directory')
})

t.test('counts searches, and reads new lines of the sources of a project only', async t => {
  const { logs, directory, searches } = await logStage(t)
  const filePath = join(directory, 'app.log')
  writeFileSync(filePath, 'one\ntwo\n')
  const [source] = await logs.sources.create('prj_a', [{ filePath, kind: 'plain' }], systemActor)
  const { signal } = new AbortController()
  const asked = { projectId: 'prj_a', sourceId: source?.id as string, offset: 0, signal }
  t.match(await logs.newLines(asked), { lines: ['one', 'two'] })
  await t.rejects(logs.newLines({ ...asked, projectId: 'prj_b' }), { code: 'not_found' })
  await t.rejects(logs.sources.create('prj_b', [{ filePath, kind: 'plain' }], systemActor), { code: 'not_found' })
  t.equal(searches.total, 0)
  t.equal(await logs.firstMatch({ source: 'w', flags: '' }, ['one', 'two'], signal), 1)
  await logs.viewer.close()
})
