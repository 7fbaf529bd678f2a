import t from 'tap'
import { adminToken, startServer } from '../support/server.js'

t.test('whoami returns the role and project of a token, and no secret', async t => {
  const stage = await startServer(t, { settings: { global_deploy_token: 'global-deploy-token' } })
  const shop = await stage.createProject('shop', { env: 'staging' })
  const cases: Array<[token: string, expected: object]> = [
    [adminToken, { role: 'admin', name: 'admin', project: null }],
    [
      shop.token,
      {
        role: 'project',
        name: `project:${shop.id}`,
        project: { id: shop.id, name: 'shop', env: 'staging', status: 'idle', lastDeployAt: null }
      }
    ],
    ['global-deploy-token', { role: 'global', name: 'global-deploy', project: null }]
  ]
  for (const [token, expected] of cases) {
    const { status, body, text } = await stage.as(token).get('/api/auth/whoami')
    t.equal(status, 200)
    t.strictSame(body, { ...expected, token: null, projects: null })
    t.notMatch(text, token)
  }
})

t.test('a wrong token counts as a failure', async t => {
  const stage = await startServer(t)
  const from = { 'x-forwarded-for': '192.0.2.7' }
  for (let attempt = 0; attempt < 8; attempt++) {
    t.equal((await stage.as('a-wrong-token').get('/api/auth/whoami', from)).status, 401)
  }
  t.equal((await stage.as('a-wrong-token').get('/api/auth/whoami', from)).status, 429)
  t.equal((await stage.as(null).get('/api/auth/whoami')).status, 401, 'without a token')
})
