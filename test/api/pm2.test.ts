import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import { standInPm2 } from '../support/pm2.js'
import { startServer } from '../support/server.js'

/** Uses a stand-in for pm2. test/cli/pm2.test.ts uses the real one. */
t.test('PM2 over the API', async t => {
  const pm2 = standInPm2(t)
  const list = [
    {
      name: 'shop',
      pm_id: 1,
      pid: 2,
      monit: { memory: 3, cpu: 4 },
      pm2_env: { status: 'online', exec_mode: 'fork_mode' }
    }
  ]
  pm2.install(list)
  const environment = { ...pm2.env, PATH: `${pm2.env.PATH}:${process.env['PATH']}` }
  const { client, createProject } = await startServer(t, { environment })
  const binding = async (pm2AppName: string | null) => {
    const { id } = await createProject(`p-${pm2AppName}`, { pm2AppName })
    return (await client.get(`/api/projects/${id}/pm2`)).body
  }

  t.same((await client.get('/api/pm2/available')).body, { available: true })
  t.same((await client.get('/api/pm2/apps')).body, { apps: [{ name: 'shop', pmId: 1, status: 'online' }] })
  t.match(await binding('shop'), {
    bound: true,
    found: true,
    name: 'shop',
    pid: 2,
    memoryBytes: 3,
    cpuPercent: 4,
    instances: 1
  })
  t.same(await binding('gone'), { bound: true, found: false, name: 'gone' })
  t.match(await binding(null), { bound: false, message: String })
  t.equal((await client.get('/api/projects/proj_unknown/pm2')).status, 404)
})

t.test('an answer without applications says why', async t => {
  const missing = { reason: 'missing', message: /^PM2 not found/ }
  const { client } = await startServer(t, { environment: standInPm2(t).env })
  t.match((await client.get('/api/pm2/available')).body, { available: false, ...missing })
  t.match((await client.get('/api/pm2/apps')).body, { apps: [], ...missing })
})

t.test('adds the log files of the application of a project, each once', async t => {
  const pm2 = standInPm2(t)
  const logs = t.testdir({ 'out-0.log': '', 'error.log': '' })
  const entry = (id: number) => ({
    name: 'shop',
    pm_id: id,
    pm2_env: {
      status: 'online',
      pm_out_log_path: join(logs, `out-${id}.log`),
      pm_err_log_path: join(logs, 'error.log')
    }
  })
  const quiet = { name: 'quiet', pm_id: 9, pm2_env: { pm_out_log_path: '/dev/null', pm_err_log_path: '/dev/null' } }
  pm2.install([entry(0), entry(1), quiet])
  const { client, createProject } = await startServer(t, { environment: pm2.env })
  const { id } = await createProject('shop', { pm2AppName: 'shop' })
  const path = `/api/projects/${id}/log-sources`
  await client.post(path, { items: [{ filePath: join(logs, 'error.log'), label: 'mine' }] })
  const { status, body } = await client.post(`${path}/pm2`)
  t.equal(status, 200)
  t.match(body.items, [
    { filePath: join(logs, 'out-0.log'), label: 'out-0.log', kind: 'pm2' },
    { filePath: join(logs, 'out-1.log') }
  ])
  t.match((await client.get(path)).body.items, [{ label: 'mine' }, {}, {}])
  t.same((await client.post(`${path}/pm2`)).body, { success: true, items: [] })

  const refused = async (pm2AppName: string | null) => {
    const other = await createProject(`other-${pm2AppName}`, { pm2AppName })
    return client.post(`/api/projects/${other.id}/log-sources/pm2`)
  }
  for (const [name, error] of [
    [null, /is not linked/],
    ['gone', /no application "gone"/],
    ['quiet', /no application "quiet" that writes log files/]
  ] as const)
    t.match(await refused(name), { status: 409, body: { code: 'no_pm2_logs', error } })
  pm2.daemon.close()
  await once(pm2.daemon, 'close')
  await new Promise(done => setTimeout(done, 1600))
  t.match(await client.post(`${path}/pm2`), { status: 409, body: { error: /daemon of this user is not running/ } })
})
