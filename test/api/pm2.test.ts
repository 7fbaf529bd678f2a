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
