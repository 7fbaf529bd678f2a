import t from 'tap'
import { chatLines } from '../../lib/notify/chat-text.js'
import { notificationOf, tokenNotification } from '../../lib/notify/events.js'
import { kindOfSetting, payloadOf } from '../../lib/notify/payloads.js'
import { maskedAddress, notificationKinds, suggestedKind } from '../../lib/model/notification-target.js'
import type { Provenance } from '../../lib/model/provenance.js'
import { aReminder, occasion } from '../support/occasion.js'

/** The kind that an address suggests, and its kind as `webhook_url`, which is generic JSON for most hosts (§6.5). */
const hosts: Array<[host: string, suggested: string, ofSetting?: string]> = [
  ['open.feishu.cn', 'feishu'],
  ['feishu.cn', 'feishu'],
  ['OPEN.FEISHU.CN', 'feishu'],
  ['open.larksuite.com', 'feishu'],
  ['open.larksuite.com.', 'feishu'],
  ['oapi.dingtalk.com', 'dingtalk'],
  ['notdingtalk.com', 'generic'],
  ['myfeishu.cn', 'generic'],
  ['feishu.cn.example.com', 'generic'],
  ['larksuite.community', 'generic'],
  ['127.0.0.1', 'generic'],
  ['[::1]', 'generic'],
  ['hooks.slack.com', 'slack', 'generic'],
  ['slack.com', 'generic'],
  ['qyapi.weixin.qq.com', 'wecom', 'generic'],
  ['prod-12.westeurope.logic.azure.com', 'teams', 'generic'],
  ['default1234.56.environment.api.powerplatform.com', 'teams', 'generic'],
  ['contoso.webhook.office.com', 'teams', 'generic']
]

for (const [host, suggested, ofSetting = suggested] of hosts) {
  t.test(`${host} suggests ${suggested}`, async t => {
    t.equal(suggestedKind(host), suggested)
    t.equal(kindOfSetting(host), ofSetting)
  })
}

t.test('shows an address without its secret parts', async t => {
  t.equal(
    maskedAddress('https://user:pass@hooks.slack.com:8443/services/T0/B0/secret?key=secret#secret'),
    'https://hooks.slack.com:8443/…'
  )
  t.equal(maskedAddress(''), '')
})

const atMs = Date.parse('2030-01-02T03:04:05Z')
const failed = notificationOf(
  occasion({
    trigger: 'rollback',
    event: 'deploy_failure',
    errorMessage: 'The script ended\nwith exit code 1',
    deployment: { status: 'failed', rollbackOf: 'dep_0', message: 'see [this](https://evil.test) <b>now</b>' }
  }),
  atMs,
  null
)
const linked = notificationOf(occasion(), atMs, 'https://deploy.example.org')

t.test('generic payloads contain the specified fields, the message and the link', async t => {
  t.same(payloadOf(failed, 'generic'), {
    event: 'deploy_failure',
    trigger: 'rollback',
    timestamp: '2030-01-02T03:04:05.000Z',
    project: { id: 'proj_1', name: 'shop', deployPath: '/srv/shop' },
    deployment: {
      id: 'dep_1',
      status: 'failed',
      duration: '1.50s',
      startTime: '2030-01-01T00:00:00.000Z',
      endTime: '2030-01-01T00:00:01.500Z',
      rollbackOf: 'dep_0',
      provenance: null
    },
    errorMessage: 'The script ended\nwith exit code 1',
    message: 'see [this](https://evil.test) <b>now</b>',
    url: null,
    checkpoint: null
  })
  t.match(payloadOf({ ...linked, checkpoint: 'a note' }, 'generic'), {
    checkpoint: 'a note',
    errorMessage: null,
    deployment: { rollbackOf: null },
    url: 'https://deploy.example.org/deployments/dep_1'
  })
})

t.test('no payload contains a secret of the project', async t => {
  for (const kind of notificationKinds) t.notMatch(JSON.stringify(payloadOf(failed, kind)), 'secret', kind)
})

t.test('the generic payload contains the whole message and the provenance', async t => {
  const provenance = {
    source: 'cli',
    commit: 'a'.repeat(40),
    branch: 'main',
    tag: null,
    author: 'Ada',
    subject: 'New prices',
    dirty: false,
    repository: 'https://git.example/shop',
    ci: null,
    by: null
  } as const
  const long = notificationOf(occasion({ errorMessage: 'x'.repeat(50_000), deployment: { provenance } }), atMs, null)
  t.match(payloadOf(long, 'generic'), { errorMessage: 'x'.repeat(50_000), deployment: { provenance } })
})

t.test('every payload contains the provenance', async t => {
  const provenance: Provenance = {
    source: 'cli',
    commit: '0123456789abcdef0123456789abcdef01234567',
    branch: 'fix_[x](https://evil.test)',
    tag: null,
    author: 'Ada',
    subject: 'Lower the prices',
    dirty: null,
    repository: 'https://git.test/shop',
    by: null,
    ci: { system: 'Drone', run: '42', url: 'https://drone.test/42', actor: 'ada' }
  }
  const from = (claim: Partial<Provenance>) =>
    notificationOf(occasion({ deployment: { message: null, provenance: { ...provenance, ...claim } } }), atMs, null)
  t.match(payloadOf(from({}), 'generic'), { message: null, deployment: { provenance } })
  const post = JSON.stringify(payloadOf(from({ branch: 'main' }), 'feishu'))
  for (const line of [
    'Message: Lower the prices',
    'Commit: 0123456 on main, by Ada',
    'CI run: Drone 42, https://drone.test/42'
  ])
    t.match(post, line)
  t.match(
    JSON.stringify(payloadOf(from({ commit: null, branch: 'main', author: null, ci: null }), 'feishu')),
    '"Commit: main"'
  )
  t.notMatch(
    JSON.stringify(payloadOf(from({ commit: null, branch: null, author: 'Ada', ci: null }), 'feishu')),
    /Commit|CI run/
  )
  t.notMatch(JSON.stringify(payloadOf(from({}), 'dingtalk')), /[^\\]\]\(https:\/\/evil/)
})

t.test('the payload of a reminder has the fields of every payload, and the token', async t => {
  t.same(payloadOf(tokenNotification(aReminder(), atMs, null), 'generic'), {
    event: 'token_expiring',
    trigger: 'expiry',
    timestamp: '2030-01-02T03:04:05.000Z',
    project: null,
    deployment: null,
    errorMessage: null,
    message: 'the token "ci-shop" expires in 14 days',
    token: {
      id: 'tok_1',
      name: 'ci-shop',
      role: 'deployer',
      projectIds: ['proj_1'],
      expiresAt: '2030-01-16T03:04:05.000Z',
      daysLeft: 14
    },
    url: null,
    checkpoint: null
  })
})

t.test('chat messages of a reminder name the token and link to the tokens', async t => {
  const reminder = aReminder({ name: 'ci <shop>', projectIds: null })
  const notification = tokenNotification(reminder, atMs, 'https://deploy.example.org')
  t.same(chatLines(notification)[2], ['Projects', 'all'])
  for (const kind of notificationKinds.filter(kind => kind !== 'generic')) {
    const text = JSON.stringify(payloadOf(notification, kind))
    t.match(text, 'svc · the token', kind)
    t.match(text, 'https://deploy.example.org/settings', kind)
    t.match(text, 'Open the tokens', kind)
    t.notMatch(text, 'Open this deployment', kind)
  }
})
