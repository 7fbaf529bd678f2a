import t from 'tap'
import { setClock } from '../support/clock.js'
import { startReceiver } from '../support/receiver.js'
import { startServer } from '../support/server.js'

const dayMs = 86_400_000

t.test('GET /api/access/report lists which tokens can deploy where', async t => {
  const { client, as, createProject } = await startServer(t, {
    settings: { global_deploy_token: 'the-global-deploy-token-1', allowed_ips: '127.0.0.0/8' }
  })
  const shop = await createProject('shop')
  const { token } = (
    await client.post('/api/tokens', {
      name: 'ci-shop',
      role: 'deployer',
      projectIds: [shop.id],
      allowedIps: ['127.0.0.0/8']
    })
  ).body
  t.equal((await as(token).get('/api/auth/whoami')).status, 200)
  const { status, body, text } = await client.get('/api/access/report')
  t.equal(status, 200)
  t.match(body, {
    rotateDays: 0,
    allowedIps: ['127.0.0.0/8'],
    tokens: [
      {
        name: 'ci-shop',
        role: 'deployer',
        allowedIps: ['127.0.0.0/8'],
        createdBy: 'admin',
        daysLeft: 90,
        lastUsedAt: String,
        lastUsedIp: '127.0.0.1',
        secondFactor: false,
        advice: []
      }
    ],
    builtIn: [{ kind: 'admin', lastUsedAt: String }, { kind: 'global' }, { kind: 'project', projectId: shop.id }],
    projects: [{ id: shop.id, name: 'shop', clientScripts: true, tokenIds: [body.tokens[0].id] }]
  })
  t.notMatch(text, token)
  t.notMatch(text, shop.token)
})

t.test('the list of tokens gives advice, and a reminder is sent before the end', async t => {
  const receiver = await startReceiver(t)
  const clock = setClock(Date.now())
  const stage = await startServer(t, {
    clock,
    settings: { webhook_url: receiver.url, webhook_events: 'token_expiring', token_rotate_days: '30' }
  })
  await stage.client.post('/api/tokens', { name: 'ci-shop', role: 'deployer' })
  const adviceNow = async () => (await stage.client.get('/api/tokens')).body.items[0].advice
  t.same(await adviceNow(), [])
  clock.advance(80 * dayMs)
  t.same(await adviceNow(), ['expires_soon', 'rotate'])
  await stage.restart()
  const [request] = await receiver.received(1)
  t.match(JSON.parse(request?.text as string), {
    event: 'token_expiring',
    token: { name: 'ci-shop', daysLeft: 10, projectIds: null }
  })
  await stage.restart()
  await stage.client.put('/api/settings', { token_rotate_days: '0' })
  t.same(await adviceNow(), ['expires_soon'])
  t.match((await stage.client.get('/api/audit?action=token.expiring')).body.items, [
    { actor: 'system', detail: /^ci-shop, expires / }
  ])
  t.equal(receiver.requests.length, 1, 'once, also after a restart')
})
