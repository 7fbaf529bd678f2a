import t from 'tap'
import { chooseScripts, mayClientsSendScripts, refuseClientScripts } from '../../../lib/deploy/scripts/scripts.js'
import { deploySays } from '../../support/sentences/deploy.js'

const none = { preDeployScript: '', postDeployScript: '', postDeployAsync: false }

t.test('scripts of the project take precedence over those of the client (§4.6)', async t => {
  type Case = { what: string; platform: string; client: string | undefined; source: string | null; line?: string }
  const cases: Case[] = [
    { what: 'neither', platform: '', client: undefined, source: null },
    { what: 'blank scripts do not count', platform: ' \n', client: ' ', source: null },
    {
      what: 'client only',
      platform: '',
      client: 'make',
      source: 'client',
      line: deploySays.sentByClient('post-deploy')
    },
    {
      what: 'platform only',
      platform: 'up',
      client: undefined,
      source: 'platform',
      line: deploySays.setOnServer('post-deploy')
    },
    {
      what: 'both',
      platform: 'up',
      client: 'make',
      source: 'platform',
      line: deploySays.clientsIgnored('post-deploy')
    }
  ]
  for (const { what, platform, client, source, line } of cases) {
    const scripts = chooseScripts(
      { ...none, preDeployScript: platform, postDeployScript: platform },
      { origin: 'upload', preDeploy: client, postDeploy: client }
    )
    t.equal(scripts.postDeploy?.source ?? null, source, what)
    t.equal(scripts.preDeploy?.source ?? null, source, what)
    t.equal(scripts.postDeploy?.line, line, what)
    t.equal(scripts.preDeploy?.line, line?.replace('post', 'pre'), what)
    if (source !== null) t.equal(scripts.postDeploy?.script, source === 'client' ? client : platform, what)
  }
})

t.test('decides whether a script runs in the background (§4.6)', async t => {
  const cases: Array<{ flag: boolean; client: boolean | undefined; async: boolean; line: string }> = [
    { flag: false, client: undefined, async: false, line: deploySays.sentByClient('post-deploy') },
    { flag: false, client: false, async: false, line: deploySays.sentByClient('post-deploy') },
    { flag: false, client: true, async: true, line: deploySays.askedForByClient },
    { flag: true, client: undefined, async: true, line: deploySays.forced },
    {
      flag: true,
      client: false,
      async: true,
      line: deploySays.forcedOverClient
    },
    {
      flag: true,
      client: true,
      async: true,
      line: deploySays.forcedOverClient
    }
  ]
  for (const { flag, client, async, line } of cases) {
    const what = `project ${flag}, client ${client}`
    const { preDeploy, postDeploy } = chooseScripts(
      { ...none, postDeployAsync: flag },
      { origin: 'upload', preDeploy: 'a', postDeploy: 'b', postDeployAsync: client }
    )
    t.equal(postDeploy?.async, async, what)
    t.match(postDeploy?.line, line, what)
    t.equal(preDeploy?.async, false, 'a pre-deploy script never runs in the background')
  }
})

t.test('a rollback says that it runs the script of the source', async t => {
  const { postDeploy } = chooseScripts(none, { origin: 'source deployment', postDeploy: 'b', postDeployAsync: true })
  t.equal(postDeploy?.line, deploySays.asInSource('post-deploy') + deploySays.inBackground)
  const own = chooseScripts({ ...none, postDeployScript: 'c' }, { origin: 'source deployment', postDeploy: 'b' })
  t.equal(own.postDeploy?.line, deploySays.sourcesNotUsed('post-deploy'))
})

t.test('the project decides about client scripts, else the setting', async t => {
  for (const setting of [true, false]) {
    t.equal(mayClientsSendScripts({ allowClientScripts: null }, setting), setting)
    t.equal(mayClientsSendScripts({ allowClientScripts: true }, setting), true)
    t.equal(mayClientsSendScripts({ allowClientScripts: false }, setting), false)
  }
  const off = { allowClientScripts: false }
  t.throws(() => refuseClientScripts(off, true, { postDeploy: 'x' }), {
    kind: 'forbidden',
    code: 'client_scripts_off',
    field: 'postDeploy'
  })
  t.throws(() => refuseClientScripts({ allowClientScripts: null }, false, { preDeploy: 'x' }), {
    field: 'preDeploy',
    code: 'client_scripts_off'
  })
  t.doesNotThrow(() => refuseClientScripts(off, true, { preDeploy: '', postDeploy: undefined }))
  t.doesNotThrow(() => refuseClientScripts({ allowClientScripts: null }, true, { preDeploy: 'x' }))
})
