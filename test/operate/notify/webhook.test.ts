import t from 'tap'
import { createServer } from 'node:https'
import { createSecureContext, type SecureContext } from 'node:tls'
import { setTimeout as sleep } from 'node:timers/promises'
import { randomIds } from '../../../lib/base/digests.js'
import type { AuditEvent } from '../../../lib/model/audit.js'
import type { Store } from '../../../lib/core/store/database.js'
import { createTargets } from '../../../lib/operate/notify/targets.js'
import { complaintOf, Webhook, isAboutRate } from '../../../lib/operate/notify/webhook.js'
import { setClock } from '../../support/clock.js'
import { aReminder, occasion } from '../../support/occasion.js'
import { makeSigned } from '../../support/certificates.js'
import { type Behaviour, startReceiver } from '../../support/receiver.js'
import { until } from '../../support/until.js'
import type { NotificationKind } from '../../../lib/model/setting.js'
import { listen } from '../../support/on-loopback.js'

const admin = { name: 'admin', ip: '192.0.2.1' }
const never = () => ({ signal: new AbortController().signal })

function createStage(
  url: string,
  more: {
    events?: string[]
    secret?: string
    stored?: object[]
    pause?: (ms: number) => Promise<void>
    trust?: () => SecureContext | undefined
  } = {}
) {
  const audits: AuditEvent[] = []
  const faults: unknown[] = []
  const clock = setClock()
  const store = {
    all: () => more.stored ?? [],
    get: () => undefined,
    write: () => Promise.reject(new Error('read-only'))
  } as unknown as Store
  const webhook = new Webhook({
    store,
    targets: createTargets({
      store,
      clock,
      ids: randomIds,
      audit: { within: () => {} },
      settings: {
        text: key => (key === 'webhook_url' ? url : (more.secret ?? '')),
        list: () => more.events ?? ['deploy_success', 'deploy_failure']
      },
      isProject: () => true
    }),
    audit: async event => void audits.push(event),
    clock,
    ids: randomIds,
    version: '1.2.3',
    publicUrl: null,
    ...(more.pause && { pause: more.pause }),
    ...(more.trust && { trust: more.trust }),
    log: (...fault) => void faults.push(fault)
  })
  return { webhook, audits, faults, clock }
}

/** Delivery rules (§6.5, §8): the behaviour of a receiver in both attempts, and the result. */
const rules: Array<{
  behaviours: Behaviour[]
  attempts: number
  outcome: string
  statusCode: number | null
  reason?: string
}> = [
  { behaviours: [200], attempts: 1, outcome: 'delivered', statusCode: 200 },
  { behaviours: [204], attempts: 1, outcome: 'delivered', statusCode: 204 },
  { behaviours: [400], attempts: 1, outcome: 'refused', statusCode: 400, reason: 'answered 400' },
  { behaviours: [404], attempts: 1, outcome: 'refused', statusCode: 404, reason: 'answered 404' },
  { behaviours: ['redirect'], attempts: 1, outcome: 'refused', statusCode: 302, reason: 'answered 302' },
  { behaviours: [408], attempts: 2, outcome: 'refused', statusCode: 408, reason: 'answered 408' },
  { behaviours: [429], attempts: 2, outcome: 'refused', statusCode: 429, reason: 'answered 429' },
  { behaviours: [500], attempts: 2, outcome: 'refused', statusCode: 500, reason: 'answered 500' },
  { behaviours: [503, 200], attempts: 2, outcome: 'delivered', statusCode: 200 },
  {
    behaviours: ['reset'],
    attempts: 2,
    outcome: 'network',
    statusCode: null,
    reason: 'the connection failed: connection reset by peer'
  },
  { behaviours: ['reset', 200], attempts: 2, outcome: 'delivered', statusCode: 200 },
  { behaviours: [500, 400], attempts: 2, outcome: 'refused', statusCode: 400, reason: 'answered 400' },
  { behaviours: ['endless'], attempts: 1, outcome: 'delivered', statusCode: 200 },
  { behaviours: ['hang', 200], attempts: 2, outcome: 'delivered', statusCode: 200 },
  { behaviours: ['silent-body'], attempts: 1, outcome: 'delivered', statusCode: 200 },
  { behaviours: ['hang'], attempts: 2, outcome: 'timeout', statusCode: null, reason: 'no answer within 5 s' }
]

t.test('delivery', async t => {
  t.jobs = rules.length
  for (const { behaviours, attempts, outcome, statusCode, reason } of rules) {
    t.test(`${behaviours.join(', then ')}: ${outcome} after ${attempts}`, async t => {
      const receiver = await startReceiver(t)
      receiver.behave(...behaviours)
      const { webhook, audits, faults } = createStage(`${receiver.url}/a-secret-path?key=a-secret-key`)
      const delivery = await webhook.test(admin, never())
      t.match(delivery, { outcome, statusCode, attempts, durationMs: Number, reason: reason ?? null })
      t.ok(delivery.durationMs < 12_000)
      t.equal(receiver.requests.length, attempts)
      t.equal(new Set(receiver.requests.map(({ headers }) => headers['webhook-id'])).size, 1, 'a retry keeps the id')
      t.equal(new Set(receiver.requests.map(({ text }) => text)).size, 1, 'a retry keeps the body')
      t.same(faults, [])
      t.equal(audits.length, reason === undefined ? 0 : 1)
      if (reason === undefined) return
      t.match(audits, [{ action: 'webhook.send', ok: false, actor: admin, target: `127.0.0.1:${receiver.port}` }])
      t.match(audits[0]?.detail, reason)
      t.notMatch(JSON.stringify(audits), 'secret')
    })
  }
})

t.test('trusts the authorities of the settings, and says if they cannot be read', async t => {
  const { authority, server: signed } = makeSigned()
  const server = createServer(signed, (_, response) => void response.end('ok'))
  const url = `https://localhost:${await listen(t, server)}/`
  const trusting = createStage(url, { trust: () => createSecureContext({ ca: authority.cert }) }).webhook
  t.match(await trusting.test(admin, never()), { outcome: 'delivered' })
  const broken = createStage(url, {
    pause: async () => {},
    trust() {
      throw new Error('"/ca.pem" contains no certificate')
    }
  }).webhook
  t.match(await broken.test(admin, never()), {
    outcome: 'network',
    reason: 'the connection failed: "/ca.pem" contains no certificate'
  })
  const receiver = await startReceiver(t)
  const plain = createStage(receiver.url, { trust: () => t.fail('not needed') as never }).webhook
  t.match(await plain.test(admin, never()), { outcome: 'delivered' })
})

t.test('sends the chosen events', async t => {
  const receiver = await startReceiver(t)
  const sent = (): string[] => receiver.requests.map(({ text }) => JSON.parse(text).event)
  for (const [events, expected] of [
    [['deploy_failure'], ['deploy_failure']],
    [[], []],
    [
      ['deploy_success', 'deploy_failure'],
      ['deploy_success', 'deploy_failure']
    ]
  ] as const) {
    receiver.requests.length = 0
    const { webhook } = createStage(receiver.url, { events: [...events] })
    webhook.notify(occasion({ event: 'deploy_success' }))
    await webhook.stop({ graceMs: 2_000 })
    const second = createStage(receiver.url, { events: [...events] }).webhook
    second.notify(occasion({ event: 'deploy_failure' }))
    await second.stop({ graceMs: 2_000 })
    t.same(sent(), expected)
  }
  const { webhook, audits } = createStage('')
  webhook.notify(occasion())
  await webhook.stop({ graceMs: 1_000 })
  t.same(audits, [], 'nothing is sent without an address, and nothing has failed')
})

t.test('headers', async t => {
  const receiver = await startReceiver(t)
  const { webhook, clock } = createStage(receiver.url, { secret: 'whsec_c2VjcmV0' })
  webhook.notify(occasion({ event: 'deploy_failure', trigger: 'manual' }))
  await receiver.received(1)
  t.match(receiver.requests[0]?.headers, {
    'user-agent': 'svc/1.2.3',
    'content-type': 'application/json',
    'x-svc-event': 'deploy_failure',
    'webhook-id': /^msg_[a-z2-7]{16}$/,
    'webhook-timestamp': String(clock.now() / 1000),
    'webhook-signature': /^v1,[A-Za-z0-9+/]{43}=$/
  })
})

t.test('sends the record as it was at the event', async t => {
  const receiver = await startReceiver(t)
  receiver.behave(500, 200)
  const { webhook } = createStage(receiver.url)
  const given = occasion()
  webhook.notify(given)
  given.deployment.status = 'failed'
  const [first, second] = await receiver.received(2)
  t.equal(JSON.parse(first?.text as string).deployment.status, 'success')
  t.equal(second?.text, first?.text)
})

t.test('never waits and never throws', async t => {
  const receiver = await startReceiver(t)
  receiver.behave('hang')
  const { webhook, audits } = createStage(receiver.url)
  for (let i = 0; i < 1_100; i++) webhook.notify(occasion({ project: { id: `proj_${i}` } }))
  t.equal(audits.length, 1_100 - 4 - 250, 'excess messages are dropped and audited')
  t.match(audits[0], { action: 'webhook.send', detail: /too many messages are waiting, 0 attempts/ })
  await receiver.received(4)
  await sleep(50)
  t.equal(receiver.requests.length, 4, 'only this many at once')

  await webhook.stop({ graceMs: 100 })
  t.equal(audits.length, 1_100, 'every message is accounted for')
  t.same(webhook.deliveries(), { delivered: 0, refused: 0, timeout: 0, network: 0, stopped: 1_100 })
  webhook.notify(occasion())
  t.match(audits.at(-1), { projectId: 'proj_1', detail: /the server was stopped, 0 attempts/ })

  const { webhook: broken, faults } = createStage('not an address')
  broken.notify(occasion())
  t.equal(faults.length, 1)
})

t.test('the test message', async t => {
  const receiver = await startReceiver(t)
  const { webhook } = createStage(receiver.url, { events: [] })
  t.match(await webhook.test(admin, never()), { outcome: 'delivered' }, 'independent of webhook_events')
  t.match(JSON.parse(receiver.requests[0]?.text as string), {
    event: 'webhook_test',
    trigger: 'test',
    project: { id: String, name: String },
    deployment: { id: String },
    message: String
  })
  await t.rejects(createStage('').webhook.test(admin, never()), { kind: 'invalid', code: 'no_webhook' })

  receiver.behave('hang')
  const giveUp = new AbortController()
  const test = webhook.test(admin, { signal: giveUp.signal })
  await receiver.received(2)
  giveUp.abort(new Error('gone'))
  t.match(await test, { outcome: 'stopped', reason: 'it was cancelled' })
})

t.test(
  'several targets get their own events and forms, and one that hangs delays no other, while the database is full',
  async t => {
    const [slow, quick, chat] = await Promise.all([startReceiver(t), startReceiver(t), startReceiver(t)])
    slow.behave('hang')
    const stored = (id: string, url: string, patch: object = {}) => ({
      position: 1,
      id,
      name: id,
      kind: 'generic',
      url,
      secret: '',
      events: '["deploy_success","deploy_failure"]',
      projectIds: '[]',
      enabled: 1,
      createdAt: '',
      updatedAt: '',
      ...patch
    })
    const rows = [
      stored('slow', slow.url),
      stored('quick', quick.url, { secret: 'a-secret' }),
      stored('chat', `${chat.url}/services/secret`, {
        kind: 'slack',
        events: '["deploy_failure"]',
        projectIds: '["proj_1"]'
      }),
      stored('off', quick.url, { enabled: 0 }),
      stored('elsewhere', quick.url, { projectIds: '["proj_other"]' })
    ]
    // Rows are decoded on each read, so each read returns its own objects.
    const { webhook, audits } = createStage('', {
      get stored() {
        return rows.map(row => ({ ...row }))
      }
    })
    for (let i = 0; i < 40; i++) webhook.notify(occasion({ event: 'deploy_success' }))
    webhook.notify(occasion({ event: 'deploy_failure' }))
    await Promise.all([quick.received(41), chat.received(1)])
    t.equal(slow.requests.length, 4, 'only its own places are used')
    t.match(JSON.parse(chat.requests[0]?.text as string), { blocks: [{ type: 'header' }, { type: 'section' }] })
    t.match(quick.requests[0]?.headers['webhook-signature'], /^v1,/)

    chat.behave({ status: 404, body: 'no_service' })
    webhook.notify(occasion({ event: 'deploy_failure' }))
    await chat.received(2)
    await webhook.stop({ graceMs: 50 })
    const said = audits.find(({ detail }) => /^chat/.test(detail ?? ''))
    t.match(said, {
      target: `127.0.0.1:${chat.port}`,
      detail: 'chat: deploy_failure (cli): answered 404: no_service, 1 attempt'
    })
    t.notMatch(JSON.stringify(audits), 'secret')
  }
)

t.test('sends a reminder of a token to the targets that want it', async t => {
  const receiver = await startReceiver(t)
  const { webhook, audits, faults } = createStage(receiver.url, { events: ['token_expiring'] })
  webhook.remind(aReminder())
  webhook.notify(occasion())
  const [request] = await receiver.received(1)
  t.match(JSON.parse(request?.text as string), { event: 'token_expiring', token: { name: 'ci-shop', daysLeft: 14 } })
  t.equal(request?.headers['x-svc-event'], 'token_expiring')
  await webhook.stop({ graceMs: 5_000 })
  t.equal(receiver.requests.length, 1, 'deployments were not chosen')
  t.same([audits, faults], [[], []])
})

t.test('the second attempt waits as long as the receiver asks, and not longer than a minute', async t => {
  const receiver = await startReceiver(t)
  const inSeconds = (seconds: number): string => new Date(Date.now() + seconds * 1000).toUTCString()
  const cases: Array<[status: number, retryAfter: string | null, from: number, to: number]> = [
    [429, '7', 7000, 7000],
    [503, ' 30 ', 30_000, 30_000],
    [503, inSeconds(20), 1000, 21_000],
    [429, '86400', 60_000, 60_000],
    [429, inSeconds(-20), 500, 500],
    [503, 'soon', 500, 500],
    [503, null, 500, 500]
  ]
  for (const [status, asked, from, to] of cases) {
    const waits: number[] = []
    const { webhook } = createStage(receiver.url, { pause: async ms => void waits.push(ms) })
    receiver.behave({ status, body: '', ...(asked !== null && { headers: { 'retry-after': asked } }) }, 200)
    webhook.notify(occasion())
    await until(() => webhook.deliveries().delivered === 1)
    const [waited = 0] = waits
    t.ok(waited >= from && waited <= to, `${status}, ${asked}: waited ${waited} ms`)
    t.equal(waits.length, 1)
  }
  const waits: number[] = []
  const { webhook } = createStage(receiver.url, { pause: async ms => void waits.push(ms) })
  receiver.behave({ status: 429, body: '', headers: { 'retry-after': '50' } }, 200)
  t.match(await webhook.test(admin, never()), { outcome: 'delivered', attempts: 2 })
  t.strictSame(waits, [5000], 'somebody waits for a test message')
})

/** Responses as documented by the services. */
const cases: Array<[kind: NotificationKind, status: number, text: string | null, expected: string | null]> = [
  ['feishu', 200, '{"code":0,"msg":"success"}', null],
  ['feishu', 200, '{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}', null],
  [
    'feishu',
    200,
    '{"code":19024,"msg":"Key Words Not Found"}',
    'answered with the error code 19024: its keyword is missing: set "svc" as the keyword'
  ],
  [
    'feishu',
    200,
    '{"code":19021,"msg":"sign match fail or timestamp is not within one hour from current time"}',
    'answered with the error code 19021: the signature does not match: check the secret'
  ],
  [
    'feishu',
    400,
    '{"code":9499,"msg":"Bad Request","data":{}}',
    'answered 400: the error code 9499: it cannot read the message'
  ],
  ['feishu', 200, 'null', null],
  ['feishu', 200, null, null],
  ['dingtalk', 200, '{"errcode":0,"errmsg":"ok"}', null],
  [
    'dingtalk',
    200,
    '{"errcode":310000,"errmsg":"keywords not in content"}',
    'answered with the error code 310000: its security settings reject the message: set "svc" as the keyword, or check the secret'
  ],
  ['dingtalk', 200, '{"errcode":1,"errmsg":"something new"}', 'answered with the error code 1'],
  ['dingtalk', 200, 'ok', null],
  ['wecom', 200, '{"errcode":0,"errmsg":"ok"}', null],
  [
    'wecom',
    200,
    '{"errcode":93000,"errmsg":"invalid webhook url, hint: [1234], from ip: 192.0.2.1"}',
    'answered with the error code 93000: the address is not valid'
  ],
  [
    'wecom',
    200,
    '{"errcode":45009,"errmsg":"api freq out of limit"}',
    'answered with the error code 45009: too many messages were sent'
  ],
  ['slack', 200, 'ok', null],
  ['slack', 200, 'another_word', null],
  ['slack', 400, 'invalid_blocks', 'answered 400: invalid_blocks'],
  ['slack', 404, 'no_service', 'answered 404: no_service'],
  ['slack', 500, '<html>the whole page</html>', 'answered 500'],
  ['teams', 202, '', null],
  ['teams', 200, '1', null],
  [
    'teams',
    200,
    'Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 413 with ContextId tcid=0',
    'answered with the Teams status 413'
  ],
  [
    'teams',
    400,
    '{"error":{"code":"TriggerInputSchemaMismatch","message":"The input body ... "}}',
    'answered 400: TriggerInputSchemaMismatch'
  ],
  [
    'teams',
    401,
    '{"error":{"code":"DirectApiAuthorizationRequired","message":"The request must be authenticated"}}',
    'answered 401: DirectApiAuthorizationRequired'
  ],
  ['generic', 200, '{"code":1}', null],
  ['generic', 422, '{"code":1}', 'answered 422'],
  ['generic', 302, '', 'answered 302']
]

for (const [kind, status, text, expected] of cases) {
  t.test(`${kind}: ${status} ${text}`, async t => {
    t.equal(complaintOf({ status, text }, kind), expected)
  })
}

t.test('knows complaints about the rate, whatever their status', async t => {
  const about = (kind: 'dingtalk' | 'teams' | 'wecom', status: number, text: string): boolean =>
    isAboutRate(complaintOf({ status, text }, kind) ?? '')
  t.ok(about('dingtalk', 200, '{"errcode": 130101}'))
  t.ok(about('wecom', 200, '{"errcode": 45009}'))
  t.ok(
    about('teams', 200, 'Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429')
  )
  t.notOk(about('dingtalk', 200, '{"errcode": 310000}'))
  t.notOk(about('wecom', 200, '{"errcode": 0}'))
})
