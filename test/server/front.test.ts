import t from 'tap'
import { join } from 'node:path'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AdminToken } from '../../lib/access/admin-token.js'
import { ensureHome, locateHome } from '../../lib/base/config/home.js'
import { createFront, createSealing } from '../../lib/server/front.js'
import type { World } from '../../lib/server/world.js'
import { openStage } from '../support/store.js'
import { startServer } from '../support/server.js'
import { createVariablesKey } from '../../lib/projects/seal.js'
import { maySwitchUser } from '../../lib/core/proc/identity.js'

t.test('needs only a store, and lets health report whether there is a token', async t => {
  const { store, clock, ids, directory } = await openStage(t)
  const home = locateHome({ SVC_HOME: join(directory, 'home') }, directory)
  await ensureHome(home)
  const faults: string[] = []
  const world = { store, home, clock, ids, version: '1.2.3', base: '', log: (line: string) => void faults.push(line) }
  const admin = { current: () => 'a-token' } as unknown as AdminToken
  const front = createFront(world as unknown as World, admin)
  t.equal(front.admin, admin)
  t.match(await front.probe.report(), { status: 'ok', version: '1.2.3' })
  const broken = {
    current() {
      throw new Error('unreadable')
    }
  } as unknown as AdminToken
  t.not((await createFront(world as unknown as World, broken).probe.report()).status, 'ok')
  t.same(faults, [])
})

t.test('serves API and panel under one base path, and reports failures only to the operator', async t => {
  const stage = await startServer(t, { base: '/tools/svc' })

  t.test('answers an unknown path of the API with an error in JSON, never with the page', async t => {
    const { status, headers, body } = await stage.as(null).get('/api/unknown')
    t.equal(status, 404)
    t.match(headers['content-type'], /^application\/json/)
    t.match(body, { success: false, error: String, code: 'not_found' })
  })

  t.test('answers a bug with a 500 and an id, and logs the same id', async t => {
    const { deployer } = stage.server.services
    const readOutput = deployer.readOutput
    const project = await stage.createProject('shop')
    await stage.as(project.token).upload([
      ['projectId', project.id],
      ['file', { filename: 'a.zip', bytes: emptyZip }]
    ])
    const [record] = (await stage.client.get('/api/logs')).body
    t.teardown(() => void (deployer.readOutput = readOutput))
    deployer.readOutput = async () => {
      throw new TypeError('a secret of the inside')
    }
    const { status, body, text } = await stage.client.get(`/api/logs/${record.id}`)
    t.equal(status, 500)
    t.match(body, { success: false, code: 'internal_error' })
    t.notMatch(text, 'a secret of the inside')
    const [told] = stage.told.warn.filter(line => line.includes('a secret of the inside'))
    const id = /"(\w+)"/.exec(body.error)?.[1] as string
    t.match(told, id)
    t.equal((await stage.client.get('/api/projects')).status, 200, 'other clients are not affected')
  })
})

/** An end of central directory record, and nothing else (APPNOTE §4.3.16). */
const emptyZip = Buffer.concat([Buffer.from('504b0506', 'hex'), Buffer.alloc(18)])

t.test('encrypts with the key of the variables, for one token', async t => {
  const { store, directory } = await openStage(t)
  const variablesKey = join(directory, 'variables.key')
  const sealing = createSealing(store, createVariablesKey(variablesKey), 'second factor')
  const sealed = await sealing.seal('tok_a', 'the-secret')
  t.notMatch(sealed, 'the-secret')
  t.equal(await sealing.unseal('tok_a', sealed), 'the-secret')
  const ofRollout = createSealing(store, createVariablesKey(variablesKey), 'rollout')
  await t.rejects(ofRollout.unseal('tok_a', sealed), { code: 'variables_key' }, 'of another kind')
  await t.rejects(sealing.unseal('tok_b', sealed), { code: 'variables_key' }, 'a copied row is useless')
  const key = readFileSync(variablesKey)
  rmSync(variablesKey)
  await t.rejects(sealing.unseal('tok_a', sealed), { code: 'variables_key', message: /is missing/ })
  writeFileSync(variablesKey, 'damaged')
  await t.rejects(sealing.seal('tok_a', 'x'), { code: 'variables_key' })
  writeFileSync(variablesKey, key)
  t.equal(await sealing.unseal('tok_a', sealed), 'the-secret')
})

t.test('a start as root names the projects that have no user of their own', async t => {
  const stage = await startServer(t)
  const about = () => stage.told.warn.filter(line => /no user of their own/.test(line))
  t.same(about(), [], 'not without projects')
  await stage.createProject('shop')
  await stage.restart()
  const { body } = await stage.client.get('/api/settings/status')
  t.equal(body.switchesUsers, maySwitchUser())
  if (maySwitchUser()) t.match(about(), [/: "shop"\. Set one with "svc projects set/])
  else t.same(about(), [], 'another user than root cannot give projects users')
})
