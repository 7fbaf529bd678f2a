import { spawnSync } from 'node:child_process'
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
  t.match(receiver.requests[0], {
    path: '/a-secret-path',
    headers: { 'x-svc-event': 'webhook_test', 'webhook-signature': /^v1,/ }
  })

  receiver.behave(500)
  t.match(await test(), {
    status: 200,
    body: {
      success: false,
      statusCode: 500,
      durationMs: Number,
      attempts: 2,
      error: 'The test message was not delivered: answered 500'
    }
  })
  await client.put('/api/settings', { webhook_url: 'http://127.0.0.1:1/a-secret-path' })
  t.match((await test()).body, { success: false, statusCode: null, attempts: 2, error: /connection refused/ })

  const {
    body: { items },
    text
  } = await client.get('/api/audit?action=webhook.send')
  t.match(items, [
    {
      actor: 'admin',
      ip: '127.0.0.1',
      target: '127.0.0.1:1',
      ok: false,
      detail: /^webhook_test \(test\): the connection failed/
    },
    { actor: 'admin', target: `127.0.0.1:${receiver.port}`, detail: 'webhook_test (test): answered 500, 2 attempts' }
  ])
  for (const secret of ['secret', 'c2VjcmV0', adminToken]) t.notMatch(text, secret)

  for (const secret of ['whsec_', 'whsec_not base64', 'whsec_***']) {
    t.match(
      await client.put('/api/settings', { webhook_secret: secret }),
      { status: 400, body: { field: 'webhook_secret' } },
      secret
    )
  }
})

const hasOpenssl = spawnSync('openssl', ['version']).status === 0

t.test(
  'the signature can be verified with openssl alone',
  { skip: !hasOpenssl && 'there is no openssl here' },
  async t => {
    const { client } = await startServer(t)
    const receiver = await startReceiver(t)
    const digest = (key: string[], text: string): string =>
      spawnSync('openssl', ['dgst', '-sha256', ...key, '-binary'], { input: text }).stdout.toString('base64')
    const secrets: Array<[secret: string, key: string[]]> = [
      ['a plain secret', ['-hmac', 'a plain secret']],
      [
        'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
        ['-mac', 'HMAC', '-macopt', 'hexkey:31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0']
      ]
    ]
    for (const [index, [secret, key]] of secrets.entries()) {
      await client.put('/api/settings', { webhook_url: `${receiver.url}/hook`, webhook_secret: secret })
      t.equal((await client.post('/api/settings/webhook-test')).body.success, true)
      const { headers, text } = (await receiver.received(index + 1))[index] as (typeof receiver.requests)[number]
      const signed = (body: string): string =>
        `v1,${digest(key, `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`)}`
      t.equal(headers['webhook-signature'], signed(text), secret)
      t.not(
        headers['webhook-signature'],
        signed(text.replace('webhook_test', 'deploy_success')),
        'a changed body does not fit'
      )
    }
  }
)
