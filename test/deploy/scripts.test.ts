import t from 'tap'
import { chooseScripts, mayClientsSendScripts, refuseClientScripts } from '../../lib/deploy/scripts.js'

const none = { preDeployScript: '', postDeployScript: '', postDeployAsync: false }

t.test('the platform takes precedence over the client (§4.6)', async t => {
  type Case = { what: string; platform: string; client: string | undefined; source: string | null; line?: string }
  const cases: Case[] = [
    { what: 'neither', platform: '', client: undefined, source: null },
    { what: 'blank ones are none', platform: ' \n', client: ' ', source: null },
    {
      what: 'client only',
      platform: '',
      client: 'make',
      source: 'client',
      line: 'post-deploy script (sent by the client)'
    },
    {
      what: 'platform only',
      platform: 'up',
      client: undefined,
      source: 'platform',
      line: 'post-deploy script (set on the server)'
    },
    {
      what: 'both',
      platform: 'up',
      client: 'make',
      source: 'platform',
      line: 'post-deploy script (set on the server; the one sent by the client is ignored)'
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

t.test('in the background or not (§4.6)', async t => {
  const cases: Array<{ flag: boolean; client: boolean | undefined; async: boolean; line: RegExp }> = [
    { flag: false, client: undefined, async: false, line: /client\)$/ },
    { flag: false, client: false, async: false, line: /client\)$/ },
    { flag: false, client: true, async: true, line: /in the background \(asked for by the client\)$/ },
    { flag: true, client: undefined, async: true, line: /\(forced by the server's setting of this project\)$/ },
    {
      flag: true,
      client: false,
      async: true,
      line: /\(forced by the server's setting of this project; the client's value is ignored\)$/
    },
    {
      flag: true,
      client: true,
      async: true,
      line: /forced by the server's setting of this project; the client's value is ignored/
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
    t.equal(preDeploy?.async, false, 'a pre-deploy script is always waited for')
  }
})

t.test('a rollback says that the script is the one of the source', async t => {
  const { postDeploy } = chooseScripts(none, { origin: 'source deployment', postDeploy: 'b', postDeployAsync: true })
  t.equal(postDeploy?.line, 'post-deploy script (as it ran in the source deployment), in the background')
  const own = chooseScripts({ ...none, postDeployScript: 'c' }, { origin: 'source deployment', postDeploy: 'b' })
  t.equal(own.postDeploy?.line, 'post-deploy script (set on the server; the one of the source deployment is not used)')
})

t.test('clients may send scripts: the word of the project, else the setting', async t => {
  for (const setting of [true, false]) {
    t.equal(mayClientsSendScripts({ allowClientScripts: null }, setting), setting)
    t.equal(mayClientsSendScripts({ allowClientScripts: true }, setting), true)
    t.equal(mayClientsSendScripts({ allowClientScripts: false }, setting), false)
  }
  const off = { allowClientScripts: false }
  t.throws(
    () => refuseClientScripts(off, true, { postDeploy: 'x' }),
    { kind: 'forbidden', code: 'client_scripts_off', field: 'postDeploy' }
  )
  t.throws(
    () => refuseClientScripts({ allowClientScripts: null }, false, { preDeploy: 'x' }),
    { field: 'preDeploy', message: /setting/ }
  )
  t.doesNotThrow(() => refuseClientScripts(off, true, { preDeploy: '', postDeploy: undefined }))
  t.doesNotThrow(() => refuseClientScripts({ allowClientScripts: null }, true, { preDeploy: 'x' }))
})
