import t from 'tap'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync
} from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { weaknessOf } from '../../lib/access/admin-token.js'
import { locateHome } from '../../lib/base/config/home.js'
import { lookForLeftovers, serve, type ServeOptions } from '../../lib/server/serve.js'
import { findOwner } from '../../lib/core/store/owner.js'
import { createClient, eventsOf, formOf } from '../support/client.js'
import { withDiskHook } from '../support/disk-hook.js'
import { freePort } from '../support/free-port.js'
import { startReceiver } from '../support/receiver.js'
import { configOf, startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { serverSays } from '../support/sentences/server.js'
import { startServe, startServeProcess } from '../support/serve-process.js'
import { insertDeployment, updateDeployment } from '../../lib/core/store/tables/deployments.js'
import { deployStage } from '../support/deploy-stage.js'
import { aDeployment } from '../core/store/stage.js'

t.test('generates a strong token at the first start, keeps it for the owner only, and prints it', async t => {
  const { told, home, server } = await startServer(t, { environment: { ADMIN_TOKEN: '' } })
  const { adminToken } = configOf(home)
  t.equal(weaknessOf(adminToken as string), null)
  t.equal(statSync(home.configFile).mode & 0o777, 0o600)
  t.equal(statSync(home.directory).mode & 0o777, 0o700)
  t.ok(told.info.some(line => line.includes(server.url)))
  t.ok(told.info.some(line => line.includes(adminToken as string)))
  t.same(told.warn, [])
})

t.test(
  'answers health with 200 only when config.json exists, so that a waiting program can read the admin token',
  async t => {
    const directory = t.testdir({})
    const home = locateHome({ SVC_HOME: join(directory, 'home') })
    const port = await freePort()
    const starting = serve({ home, port, cwd: directory, environment: {}, report: { info: () => {}, warn: () => {} } })
    let status = 0
    while (status !== 200) {
      status = await fetch(`http://127.0.0.1:${port}/api/health`).then(
        reply => reply.status,
        () => 0
      )
      const isThere = existsSync(home.configFile)
      if (status === 200) t.ok(isThere)
      await nextTurn()
    }
    t.equal(weaknessOf(configOf(home)['adminToken'] as string), null)
    await (await starting).stop({ wait: true })
  }
)

t.test('takes the admin token from .env.local, then from the environment, then from the file', async t => {
  const directory = t.testdir({ '.env.local': 'ADMIN_TOKEN="weak"\n' })
  const home = locateHome({ SVC_HOME: join(directory, 'home') })
  const warnings: string[] = []
  const options: ServeOptions = {
    home,
    port: 0,
    cwd: directory,
    environment: { ADMIN_TOKEN: 'from-the-environment' },
    report: { info: () => {}, warn: line => void warnings.push(line) }
  }
  const first = await serve(options)
  t.equal(first.adminToken.current(), 'weak')
  t.match(warnings, [/weak: it has 4 characters/], 'a weak token only causes a warning')
  await first.stop({ wait: true })
  const second = await serve({ ...options, cwd: home.directory })
  t.equal(second.adminToken.current(), 'from-the-environment')
  await second.stop({ wait: true })
})

t.test('accepts a, /a and /a/ as the same base path', async t => {
  for (const base of ['a', '/a', '/a/', '/a/b/']) {
    await t.test(base, async t => {
      const { url, client, server } = await startServer(t, { base })
      t.ok(url.endsWith(base.includes('b') ? '/a/b' : '/a'), url)
      t.equal((await client.get('/api/health')).status, 200)
      const outside = await fetch(`${new URL(server.url).origin}/api/health`)
      t.equal(outside.status, 404)
      t.match(await outside.json(), { success: false, code: 'not_found' })
    })
  }
})

t.test('warns of a host that other machines can reach', async t => {
  const { told } = await startServer(t, { host: '0.0.0.0' })
  t.match(told.warn.join('\n'), serverSays.reachable('0.0.0.0'))
})

t.test('explains a port that is in use, and releases the data directory', async t => {
  const { server, sites: directory } = await startServer(t)
  const options: ServeOptions = {
    home: locateHome({ SVC_HOME: join(directory, 'other-home') }),
    port: Number(new URL(server.url).port),
    cwd: directory,
    environment: {},
    report: { info: () => {}, warn: () => {} }
  }
  await t.rejects(serve(options), { kind: 'conflict', code: 'address_in_use', message: /address already in use/ })
  const free = await serve({ ...options, port: 0 })
  await free.stop({ wait: true })
})

t.test('answers every request from the moment it prints where it listens', async t => {
  const directory = t.testdir()
  const asked: Array<Promise<Response>> = []
  const ask = (line: string): void => {
    const url = /http:\S+(?=\/$)/.exec(line)?.[0]
    const headers = { authorization: 'Bearer from-the-environment' }
    if (url !== undefined)
      asked.push(fetch(`${url}/api/health`), fetch(`${url}/api/projects`, { headers }), fetch(`${url}/api/nothing`))
  }
  const server = await serve({
    home: locateHome({ SVC_HOME: join(directory, 'home') }),
    port: 0,
    cwd: directory,
    environment: { ADMIN_TOKEN: 'from-the-environment' },
    report: { info: ask, warn: () => {} }
  })
  t.teardown(() => server.stop({ wait: false }))
  t.same(
    (await Promise.all(asked)).map(({ status }) => status),
    [200, 200, 404]
  )
})

t.test('answers nobody and releases the port and the data directory if a start fails after it listens', async t => {
  const directory = t.testdir()
  const home = locateHome({ SVC_HOME: join(directory, 'home') })
  const asked: Array<Promise<unknown>> = []
  let port = 0
  const spoil = (line: string): void => {
    const url = /http:\S+(?=\/$)/.exec(line)?.[0]
    if (url === undefined) return
    port = Number(new URL(url).port)
    asked.push(t.rejects(fetch(`${url}/api/projects`)))
    rmdirSync(home.tmp)
    writeFileSync(home.tmp, 'no directory')
  }
  const options = { home, port: 0, cwd: directory, environment: {}, report: { info: spoil, warn: () => {} } }
  await t.rejects(serve(options), { code: 'EEXIST' })
  await Promise.all(asked)
  t.equal(await findOwner(home.directory), null)
  rmSync(home.tmp)
  const again = await serve({ ...options, port, report: { info: () => {}, warn: () => {} } })
  await again.stop({ wait: true })
})

t.test('allows only one server per data directory', async t => {
  const { home } = await startServer(t)
  const options = { home, port: 0, cwd: home.directory, environment: {}, report: { info: () => {}, warn: () => {} } }
  await t.rejects(serve(options), { kind: 'conflict', code: 'in_use' })
})

t.test('refuses an unreadable database and does not change it', async t => {
  const directory = t.testdir({ home: { 'svc.db': 'this is no database' } })
  const home = locateHome({ SVC_HOME: join(directory, 'home') })
  const options = { home, port: 0, cwd: directory, environment: {}, report: { info: () => {}, warn: () => {} } }
  await t.rejects(serve(options), { name: 'Refusal' })
  t.equal(readFileSync(home.database, 'utf8'), 'this is no database')
  t.equal(await findOwner(home.directory), null, 'the directory is released')
})

t.test('lets the local operator use the socket of the data directory without a token', async t => {
  const { home } = await startServer(t)
  const socketPath = (await findOwner(home.directory)) as string
  const status = await new Promise((resolve, reject) => {
    request({ socketPath, path: '/api/projects' }, reply => {
      reply.resume()
      resolve(reply.statusCode)
    })
      .on('error', reject)
      .end()
  })
  t.equal(status, 200)
})

t.test('stopping', async t => {
  const zip = { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'hello' }) }
  const push = (
    stage: Awaited<ReturnType<typeof startServer>>,
    project: { id: string; token: string },
    script: string
  ) => {
    const { contentType, body } = formOf([
      ['projectId', project.id],
      ['file', zip],
      ['postDeploy', script]
    ])
    return stage
      .as(project.token)
      .open('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
  }
  const textOf = async (stream: AsyncIterable<Buffer>) => {
    let text = ''
    for await (const chunk of stream) text += chunk.toString()
    return { text }
  }

  t.test('lets a running deployment and its reply finish', async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('shop')
    const reply = await push(stage, project, 'until [ -e ../go ]; do sleep 0.02; done; touch done.txt')
    const stopped = stage.server.stop({ wait: true })
    writeFileSync(join(stage.sites, 'go'), '')
    const [{ text }] = await Promise.all([textOf(reply), stopped])
    t.match(eventsOf({ text }).at(-1), { event: 'status', status: 'success' })
    t.ok(existsSync(join(stage.sites, 'shop/done.txt')))
  })

  t.test('does not wait when it is called a second time', async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('shop')
    const reply = await push(stage, project, 'sleep 60')
    const first = stage.server.stop({ wait: true })
    const events = textOf(reply)
    await new Promise(resolve => setTimeout(resolve, 100))
    await stage.server.stop({ wait: false })
    await first
    t.match(eventsOf(await events).at(-1), { event: 'status', status: 'failed' })
  })

  t.test('keeps everything that was acknowledged for the next start', async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('shop')
    await stage.restart()
    t.equal((await stage.client.get(`/api/projects/${project.id}`)).status, 200)
  })

  t.test('ends streams that have no end of their own', async t => {
    const stage = await startServer(t)
    const project = await stage.createProject('shop')
    const reply = await push(stage, project, 'until [ -e ../go ]; do sleep 0.02; done')
    const [running] = (await stage.client.get('/api/logs')).body
    const watching = await stage.client.open('GET', `/api/logs/${running.id}/stream`)
    const ended = Promise.all([textOf(reply), textOf(watching), stage.server.stop({ wait: true })])
    writeFileSync(join(stage.sites, 'go'), '')
    await ended
  })
})

t.test('accepts a missing .env.local and a config.json of an old version', async t => {
  const directory = t.testdir({
    home: { 'config.json': '{"adminToken": "kept-token-123456789012", "future": {"a": 1}}' }
  })
  const home = locateHome({ SVC_HOME: join(directory, 'home') })
  const server = await serve({
    home,
    port: 0,
    cwd: directory,
    environment: {},
    report: { info: () => {}, warn: () => {} }
  })
  t.teardown(() => server.stop({ wait: false }))
  t.equal(server.adminToken.current(), 'kept-token-123456789012')
  writeFileSync(home.configFile, '{"adminToken": "changed-by-reset", "future": {"a": 1}}')
  await new Promise(resolve => setImmediate(resolve))
  t.equal(server.adminToken.current(), 'changed-by-reset')
})

t.test('reports a start if there is an endpoint, without any delay', async t => {
  const receiver = await startReceiver(t)
  receiver.behave('hang')
  const { server, home, client } = await startServer(t, { environment: { SVC_TELEMETRY_ENDPOINT: receiver.url } })
  t.equal((await client.get('/api/health')).status, 200)
  const [request] = await receiver.received(1)
  const report = JSON.parse(request?.text as string)
  t.match(report, { event: 'svc.serve.startup', svcVersion: String, instanceId: configOf(home)['telemetryInstanceId'] })
  t.strictSame(Object.keys(report).sort(), ['arch', 'event', 'instanceId', 'os', 'svcVersion', 'ts'])
  await server.stop({ wait: true })
  await request?.closed
})

t.test('a stop whose last writes fail closes everything, then says what failed', async t => {
  const directory = t.testdir({})
  const home = locateHome({ SVC_HOME: join(directory, 'home') })
  const options: ServeOptions = {
    home,
    port: 0,
    cwd: directory,
    environment: {},
    report: { info: () => {}, warn: () => {} }
  }
  const server = await serve(options)
  const admin = createClient(() => server.url, server.adminToken.current())
  const { token } = (await admin.post('/api/tokens', { name: 'reader', role: 'viewer' })).body
  t.equal((await createClient(() => server.url, token).get('/api/projects')).status, 200, 'its use is to be noted')
  const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
  const stopped = withDiskHook(
    name => {
      if (/write/i.test(name)) throw full
    },
    () => server.stop({ wait: true })
  )
  await t.rejects(stopped, { code: 'disk_full' })
  t.equal(await findOwner(home.directory), null)
  const again = await serve(options)
  await again.stop({ wait: true })
})

t.test('removes what killed processes left in the data directory, and reports it once', async t => {
  const cwd = t.testdir({ elsewhere: {} })
  const home = join(cwd, 'server-home')
  const first = await startServeProcess(t, cwd)
  await first.api('POST', '/api/projects', { name: 'Shop', deployPath: join(cwd, 'www') })
  await first.stop('SIGKILL')
  const gone = [
    'config.json.0123456789ab.tmp',
    'cluster.json.0123456789ab.tmp',
    'variables.key.0123456789ab.tmp',
    'keys/server.ed25519.0123456789ab.tmp',
    'keys/server.pub.0123456789ab.tmp',
    'keys/session.key.0123456789ab.tmp',
    'svc.db.tmp',
    'svc.db.redo.tmp',
    'svc.db.schema-3.tmp',
    'health.probe'
  ]
  const kept = ['svc.db.schema-3', 'notes.tmp', 'config.json.bak']
  mkdirSync(join(home, 'keys'), { recursive: true, mode: 0o700 })
  for (const name of [...gone, ...kept]) {
    writeFileSync(join(home, name), '{"adminToken":"in clear"}')
    utimesSync(join(home, name), 1_000_000_000, 1_000_000_000)
  }

  const second = await startServe(t, cwd)
  await second.warns(/Removed files that killed processes left behind: .*svc\.db\.tmp/)
  t.equal((await second.api<unknown[]>('GET', '/api/projects')).length, 1)
  // The server itself writes svc.db.tmp meanwhile.
  await second.stop()
  for (const name of gone) t.notOk(existsSync(join(home, name)), name)
  for (const name of kept) t.ok(existsSync(join(home, name)), name)

  const third = await startServe(t, cwd)
  t.equal((await third.api<unknown[]>('GET', '/api/projects')).length, 1)
  // As root, svc names the projects without a user of their own.
  const said = third.saidOnStderr().split('\n')
  t.strictSame(
    said.filter(line => line !== '' && !line.includes('no user of their own')),
    [],
    'a clean start prints no other warning'
  )
})

t.test('removes what a killed server left among its keys, whatever its clock says', async t => {
  const name = `server.pub.${'a'.repeat(12)}.tmp`
  const cwd = t.testdir({ 'server-home': { keys: { [name]: 'x' } } })
  const keys = join(cwd, 'server-home/keys')
  const aheadOfStart = new Date(Date.now() + 30_000)
  utimesSync(join(keys, name), aheadOfStart, aheadOfStart)
  await startServe(t, cwd)
  t.notOk(existsSync(join(keys, name)))
})

t.test('starts even if a leftover cannot be removed', async t => {
  const cwd = t.testdir({
    elsewhere: { 'config.json': '{}' },
    'server-home': { 'health.probe': { 'a-directory': '' } }
  })
  const home = join(cwd, 'server-home')
  symlinkSync(join(cwd, 'elsewhere/config.json'), join(home, 'config.json'))
  const server = await startServe(t, cwd)
  await server.warns(/Cannot remove the files that killed processes left in ".*server-home": /)
  t.equal((await server.api<unknown[]>('GET', '/api/projects')).length, 0)
})

t.test('finds a journal, or a record of a running deployment', async t => {
  const stage = await deployStage(t)
  const { store, home } = stage
  const { id: projectId } = await stage.addProject()
  const isThere = (): Promise<boolean> => lookForLeftovers(home.deployments)(store)
  t.equal(await isThere(), false)
  const journal = join(home.deployments, 'dep_x.undo')
  writeFileSync(journal, '')
  t.equal(await isThere(), true)
  rmSync(journal)
  for (const status of ['queued', 'running'] as const) {
    await store.write(tx => insertDeployment(tx, aDeployment({ id: `dep_${status}`, projectId, status })))
    t.equal(await isThere(), true, status)
    await store.write(tx => updateDeployment(tx, `dep_${status}`, { status: 'failed' }))
    t.equal(await isThere(), false)
  }
  t.equal(await lookForLeftovers(join(home.deployments, 'none'))(store), false, 'a first start')
})
