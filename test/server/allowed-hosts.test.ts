import t from 'tap'
import { startServer } from '../support/server.js'

t.test('refuses other names on every route if SVC_PUBLIC_URL or allowed_hosts is set', async t => {
  const stage = await startServer(t, { environment: { SVC_PUBLIC_URL: 'https://deploy.example.org' } })
  const ask = async (host: string, path = '/api/health') =>
    (await stage.client.send('GET', path, { headers: { host } })).status
  t.equal(await ask('deploy.example.org'), 200)
  for (const path of ['/api/health', '/api/projects', '/', '/api/terminal/ws', '/api/nothing'])
    t.equal(await ask('evil.test', path), 421, path)
  t.equal(await ask('10.0.0.7:5431'), 200)
  t.equal((await stage.client.put('/api/settings', { allowed_hosts: 'Panel.example.org' })).status, 200)
  t.equal(await ask('panel.example.org'), 200, 'at once')
  t.equal(await ask('deploy.example.org'), 200, 'next to the public address')
})

t.test('refuses a list that would exclude the user who sets it', async t => {
  const stage = await startServer(t)
  const send = (host: string, allowed_hosts: string) =>
    stage.client.send('PUT', '/api/settings', {
      headers: { host, 'content-type': 'application/json' },
      body: JSON.stringify({ allowed_hosts })
    })
  t.match(await send('deploy.example.org', 'other.example.org'), {
    status: 400,
    body: { code: 'shuts_out_yourself', field: 'allowed_hosts' }
  })
  t.match(await send('deploy.example.org', 'https://deploy.example.org'), {
    status: 400,
    body: { code: 'invalid_setting' }
  })
  t.equal((await send('deploy.example.org', 'deploy.example.org')).status, 200)
  t.equal((await send('deploy.example.org', '')).status, 200)
})
