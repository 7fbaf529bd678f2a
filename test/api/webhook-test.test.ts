import t from 'tap'
import { startReceiver } from '../support/receiver.js'
import { adminToken, startServer } from '../support/server.js'

t.test('POST /api/settings/webhook-test', async t => {
  const { client } = await startServer(t)
  const receiver = await startReceiver(t)
  const test = () => client.post('/api/settings/webhook-test')
  const { status, body } = await test()
  t.equal(status, 400, 'without an address')
  t.match(body, { success: false, error: String, code: 'no_webhook' })

  const url = `${receiver.url}/a-secret-path`
  await client.put('/api/settings', { webhook_url: url, webhook_secret: 'whsec_c2VjcmV0', webhook_events: '' })
  const sent = await test()
  t.equal(sent.status, 200)
  t.strictSame(sent.body, { success: true, statusCode: 200, durationMs: sent.body.durationMs, attempts: 1 })
  t.ok(Number.isInteger(sent.body.durationMs))
  t.match(receiver.requests[0], { path: '/a-secret-path', headers: { 'x-svc-event': 'webhook_test', 'webhook-signature': /^v1,/ } })

  receiver.behave(500)
  t.match(await test(), {
    status: 200,
    body: { success: false, statusCode: 500, durationMs: Number, attempts: 2, error: 'The test message was not delivered: answered 500' }
  })
  await client.put('/api/settings', { webhook_url: 'http://127.0.0.1:1/a-secret-path' })
  t.match((await test()).body, { success: false, statusCode: null, attempts: 2, error: /ECONNREFUSED/ })

  const { body: { items }, text } = await client.get('/api/audit?action=webhook.send')
  t.match(items, [
    { actor: 'admin', ip: '127.0.0.1', target: '127.0.0.1:1', ok: false, detail: /^webhook_test \(test\): the connection failed/ },
    { actor: 'admin', target: `127.0.0.1:${receiver.port}`, detail: 'webhook_test (test): answered 500, 2 attempts' }
  ])
  for (const secret of ['secret', 'c2VjcmV0', adminToken]) t.notMatch(text, secret)

  for (const secret of ['whsec_', 'whsec_not base64', 'whsec_***']) {
    t.match(await client.put('/api/settings', { webhook_secret: secret }), { status: 400, body: { field: 'webhook_secret' } }, secret)
  }
})
