import t from 'tap'
import { spawnSync } from 'node:child_process'
import { signed, takesSecret, webhookHeaders } from '../../lib/notify/signature.js'

// The convention's own example (standard-webhooks, spec: "signature scheme").
const example = {
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  atMs: 1614265330_000,
  body: '{"test": 2432232314}',
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
}

t.test('reproduces the example of the convention', async t => {
  t.same(webhookHeaders(example), {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
  })
})

t.test('signs nothing without a secret', async t => {
  t.same(Object.keys(webhookHeaders({ ...example, secret: '' })), ['webhook-id', 'webhook-timestamp'])
})

const hasOpenssl = spawnSync('openssl', ['version']).status === 0

for (const secret of [example.secret, 'used as it stands: é']) {
  t.test(
    `openssl finds the same signature (${secret.slice(0, 6)})`,
    { skip: !hasOpenssl && 'there is no openssl here' },
    async t => {
      const headers = webhookHeaders({ ...example, secret })
      const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : Buffer.from(secret)
      const words = ['dgst', '-sha256', '-mac', 'HMAC', '-macopt', `hexkey:${key.toString('hex')}`, '-binary']
      const input = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${example.body}`
      const { stdout } = spawnSync('openssl', words, { input })
      t.equal(headers['webhook-signature'], `v1,${stdout.toString('base64')}`)
    }
  )
}

// The expected signatures were computed with the Python code in the services' documentation.
t.test('signs DingTalk in the address and Feishu in the body, as documented', async t => {
  const message = { id: 'msg_1', atMs: 1_700_000_000_123, payload: { msgtype: 'markdown' }, secret: 'SEC-a-secret' }
  const dingtalk = signed('dingtalk', {
    ...message,
    url: new URL('https://oapi.dingtalk.com/robot/send?access_token=t')
  })
  t.equal(dingtalk.url.searchParams.get('access_token'), 't')
  t.equal(dingtalk.url.searchParams.get('timestamp'), '1700000000123')
  t.equal(dingtalk.url.searchParams.get('sign'), 'wqrtHx7EmsV7vUftb7NzBJnIVIgLRavQgXr+e4/LA5Y=')
  t.match(dingtalk.url.search, /sign=[\w%]+$/, '+, / and = are encoded')
  t.equal(dingtalk.body, '{"msgtype":"markdown"}')

  const feishu = signed('feishu', { ...message, url: new URL('https://open.feishu.cn/hook') })
  t.same(JSON.parse(feishu.body), {
    timestamp: '1700000000',
    sign: 'qS80SkbOfMC7zih/R90olbed03lFsEOxOgUS8NNipBs=',
    msgtype: 'markdown'
  })

  const plain = signed('feishu', { ...message, secret: '', url: new URL('https://open.feishu.cn/hook') })
  t.equal(plain.body, '{"msgtype":"markdown"}', 'without a secret nothing is added')
  t.same((['generic', 'slack', 'teams', 'feishu', 'dingtalk', 'wecom'] as const).filter(takesSecret), [
    'generic',
    'feishu',
    'dingtalk'
  ])
})
