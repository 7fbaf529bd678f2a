import t from 'tap'
import { spawnSync } from 'node:child_process'
import {
  bytesOf,
  chatLines,
  clip,
  jsonBytesOf,
  kindOfSetting,
  payloadOf,
  signed,
  takesSecret,
  webhookHeaders
} from '../../../lib/operate/notify/payloads.js'
import { notificationOf, tokenNotification } from '../../../lib/operate/notify/events.js'
import { maskedAddress, type NotificationKind, notificationKinds, suggestedKind } from '../../../lib/model/setting.js'
import type { Provenance } from '../../../lib/model/provenance.js'
import { aReminder, occasion } from '../../support/occasion.js'

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
    t.match(text, 'https://deploy.example.org/access', kind)
    t.match(text, 'Open the tokens', kind)
    t.notMatch(text, 'Open this deployment', kind)
  }
})

const link = 'https://deploy.example.org/deployments/dep_1'

t.test('Feishu gets rich text with the keyword in title and text', async t => {
  t.same(payloadOf(failed, 'feishu'), {
    msg_type: 'post',
    content: {
      post: {
        zh_cn: {
          title: 'svc · shop: rollback failed',
          content: [
            'svc · shop: rollback failed',
            'Project: shop (proj_1)',
            'Target: /srv/shop',
            'Deployment: dep_1',
            'Rollback to: dep_0',
            'Message: see [this](https://evil.test) <b>now</b>',
            'Duration: 1.50s',
            'Error: The script ended with exit code 1',
            'Time: 2030-01-02T03:04:05.000Z'
          ].map(text => [{ tag: 'text', text }])
        }
      }
    }
  })
})

t.test('DingTalk gets markdown with the keyword, and texts cannot make links', async t => {
  t.same(payloadOf(failed, 'dingtalk'), {
    msgtype: 'markdown',
    markdown: {
      title: 'svc · shop: rollback failed',
      text: [
        '#### svc · shop: rollback failed',
        '',
        '- **Project**: shop (proj_1)',
        '- **Target**: /srv/shop',
        '- **Deployment**: dep_1',
        '- **Rollback to**: dep_0',
        '- **Message**: see \\[this\\](https://evil.test) \\<b\\>now\\</b\\>',
        '- **Duration**: 1.50s',
        '- **Error**: The script ended with exit code 1',
        '- **Time**: 2030-01-02T03:04:05.000Z'
      ].join('\n')
    }
  })
})

t.test('chat messages link to the deployment if the public address is known', async t => {
  const url = 'https://deploy.example.org/deployments/dep_1'
  const { content } = (payloadOf(linked, 'feishu') as any).content.post.zh_cn
  t.same(content.at(-1), [{ tag: 'a', text: 'Open this deployment', href: url }])
  t.match(
    (payloadOf(linked, 'dingtalk') as any).markdown.text,
    new RegExp(`\\n\\n\\[Open this deployment\\]\\(${url}\\)$`)
  )
})

t.test('Slack gets a header, fields, a link and a text, with & < > escaped', async t => {
  t.same(payloadOf(failed, 'slack'), {
    text: 'svc · shop: rollback failed',
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: 'svc · shop: rollback failed', emoji: false } },
      {
        type: 'section',
        fields: [
          '*Project*\nshop (proj_1)',
          '*Target*\n/srv/shop',
          '*Deployment*\ndep_1',
          '*Rollback to*\ndep_0',
          '*Message*\nsee [this](https://evil.test) &lt;b&gt;now&lt;/b&gt;',
          '*Duration*\n1.50s',
          '*Error*\nThe script ended with exit code 1',
          '*Time*\n2030-01-02T03:04:05.000Z'
        ].map(text => ({ type: 'mrkdwn', text, verbatim: true }))
      }
    ]
  })
  t.same((payloadOf(linked, 'slack') as any).blocks.at(-1), {
    type: 'section',
    text: { type: 'mrkdwn', text: `<${link}|Open this deployment>`, verbatim: true }
  })
  const loud = notificationOf(occasion({ deployment: { message: '<!channel> & <@U012345>' } }), atMs, null)
  t.match(JSON.stringify(payloadOf(loud, 'slack')), '&lt;!channel&gt; &amp; &lt;@U012345&gt;', 'mentions nobody')
})

t.test('Teams gets an Adaptive Card with text runs without markdown', async t => {
  const { type, attachments } = payloadOf(failed, 'teams') as any
  t.equal(type, 'message')
  t.match(attachments, [
    {
      contentType: 'application/vnd.microsoft.card.adaptive',
      contentUrl: null,
      content: {
        $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
        type: 'AdaptiveCard',
        version: '1.4',
        fallbackText: 'svc · shop: rollback failed'
      }
    }
  ])
  const [{ content }] = attachments
  t.same(content.body[0], {
    type: 'RichTextBlock',
    inlines: [
      { type: 'TextRun', text: 'svc · shop: rollback failed', weight: 'Bolder', size: 'Medium', color: 'Attention' }
    ]
  })
  t.same(
    content.body[5].inlines.map(({ text }: { text: string }) => text),
    ['Message: ', 'see [this](https://evil.test) <b>now</b>']
  )
  t.equal(content.actions, undefined)
  const card = (payloadOf(linked, 'teams') as any).attachments[0].content
  t.same(card.actions, [{ type: 'Action.OpenUrl', title: 'Open this deployment', url: link }])
  t.equal(card.body[0].inlines[0].color, 'Good')
})

t.test('WeCom gets markdown with full-width characters in texts', async t => {
  t.same(payloadOf(failed, 'wecom'), {
    msgtype: 'markdown',
    markdown: {
      content: [
        '**svc · shop: rollback failed**',
        '> Project: shop (proj_1)',
        '> Target: /srv/shop',
        '> Deployment: dep_1',
        '> Rollback to: dep_0',
        '> Message: see ［this］(https://evil.test) ＜b＞now＜/b＞',
        '> Duration: 1.50s',
        '> Error: The script ended with exit code 1',
        '> Time: 2030-01-02T03:04:05.000Z'
      ].join('\n')
    }
  })
  t.match((payloadOf(linked, 'wecom') as any).markdown.content, `\n[Open this deployment](${link})\n`)
})

t.test('every chat message contains the commit', async t => {
  const provenance = {
    source: 'cli',
    commit: '0123456789abcdef0123456789abcdef01234567',
    branch: 'main',
    tag: null,
    author: 'Ada',
    subject: null,
    dirty: null,
    repository: null,
    ci: null,
    by: null
  } as const
  const known = notificationOf(occasion({ deployment: { provenance } }), atMs, null)
  for (const kind of ['slack', 'teams', 'feishu', 'dingtalk', 'wecom'] as const) {
    t.match(JSON.stringify(payloadOf(known, kind)), '0123456 on main, by Ada', kind)
  }
})

/** Maximum body in bytes as documented by each service. WeCom documents that of the content, which is tested below. */
const limits: Array<[kind: NotificationKind, bytes: number]> = [
  ['slack', 40_000],
  ['teams', 28_000],
  ['feishu', 20_000],
  ['dingtalk', 20_000],
  ['wecom', 28_000]
]
/** Texts that grow most when they are escaped or encoded. */
const fillings = ['x', '&', '<', '"', '\\', '*', '`', '😀', '汉', '\u0001']

for (const [kind, bytes] of limits) {
  t.test(`${kind}: stays below the limit of its service for any name, message or error`, async t => {
    for (const filling of fillings) {
      const long = filling.repeat(5_000)
      const provenance = {
        source: 'cli',
        commit: 'a'.repeat(40),
        branch: long,
        tag: null,
        author: long,
        subject: long,
        dirty: true,
        repository: long,
        ci: null,
        by: null
      } as const
      const wild = occasion({
        event: 'deploy_failure',
        errorMessage: long,
        project: { id: 'proj_1', name: long.slice(0, 200), deployPath: `/${long.slice(0, 4_000)}` },
        deployment: { message: long.slice(0, 500), rollbackOf: 'dep_0', duration: '1s', provenance }
      })
      const body = JSON.stringify(payloadOf(notificationOf(wild, atMs, 'https://deploy.example.org'), kind))
      t.ok(Buffer.byteLength(body) < bytes, `${JSON.stringify(filling)}: ${Buffer.byteLength(body)} bytes`)
      const content = JSON.parse(body).markdown?.content ?? ''
      t.ok(
        Buffer.byteLength(content) <= 4_096,
        `${JSON.stringify(filling)}: ${Buffer.byteLength(content)} bytes of WeCom's content`
      )
      t.match(body, 'deployments/dep_1', 'the link is included')
      t.notMatch(body, /\\ud[89a-f]/, 'no character is split')
    }
  })
}

t.test('limits the parts of a message', async t => {
  const wild = occasion({
    project: { name: '&'.repeat(200), deployPath: `/${'&'.repeat(4_000)}` },
    errorMessage: '<'.repeat(3_000)
  })
  const notification = notificationOf(wild, atMs, null)
  const { text, blocks } = payloadOf(notification, 'slack') as any
  t.ok(blocks[0].text.text.length <= 150)
  t.ok(blocks[1].fields.length <= 10)
  for (const field of blocks[1].fields)
    t.ok(field.text.length <= 2_000 && !/&(?!amp;|lt;|gt;)/.test(field.text), 'no escape is cut')
  t.ok(text.length <= 2_000)
  const { content } = (payloadOf(notification, 'wecom') as any).markdown
  t.ok(Buffer.byteLength(content) <= 4_096)
})

/** Texts of a pipeline that would ping, link, draw or reorder, and what none of them may leave in a message. */
const hostile = [
  '<!channel>',
  '<!here|here>',
  '<!subteam^S1>',
  '<@U012345>',
  '@channel @all @here @everyone',
  '<at user_id="all">all</at>',
  '<at id=all></at>',
  '<https://evil.test|click>',
  '[click](https://evil.test)',
  '![picture](https://evil.test/i.png)',
  '[click][1]\n\n[1]: https://evil.test',
  '<https://evil.test>',
  '<script>alert(1)</script>',
  '<font color="info">x</font>',
  '`code` **bold** # title',
  'https://evil.test/bare',
  'a\u202eb\u0000c\u001b[31md'
]
/** What each service would read as markup, by the documentation of its format. */
const markup: Record<Exclude<NotificationKind, 'generic'>, (payload: any) => string[]> = {
  slack: ({ text, blocks }) => {
    const objects = blocks.flatMap((block: any) => [block.text, ...(block.fields ?? [])]).filter(Boolean)
    const markdown = objects.filter(({ type }: any) => type === 'mrkdwn')
    return [
      ...markdown.filter(({ verbatim }: any) => verbatim !== true).map(() => 'a text that is not verbatim'),
      ...[text, ...markdown.map((each: any) => each.text)].flatMap((each: string) => each.match(/<[^>]*>?/g) ?? [])
    ]
  },
  teams: ({ attachments }) => {
    const { body, actions = [] } = attachments[0].content
    return [...body.flatMap(({ type, inlines }: any) => (type === 'RichTextBlock' ? inlines : [type])), ...actions]
      .filter((each: any) => each.type !== 'TextRun')
      .map(each => JSON.stringify(each))
  },
  feishu: ({ content }) =>
    content.post.zh_cn.content
      .flat()
      .filter(({ tag, un_escape }: any) => tag !== 'text' || un_escape === true)
      .map((each: any) => JSON.stringify(each)),
  dingtalk: ({ markdown, at }) => [
    ...(at === undefined ? [] : ['at']),
    ...(markdown.text.match(/(?<!\\)(?:\\\\)*[[\]<>`]/g) ?? [])
  ],
  wecom: ({ markdown }) => markdown.content.match(/[<[\]`@]|^#/gm) ?? [],
  discord: ({ embeds, allowed_mentions }) => [
    ...(allowed_mentions.parse.length === 0 ? [] : ['mentions']),
    ...embeds.flatMap(({ title, fields }: any) =>
      [title, ...fields.map(({ value }: any) => value)].flatMap(
        (each: string) => each.match(/(?<!\\)(?:\\\\)*(?:[[\]<>`*_@#]|:\/\/)/g) ?? []
      )
    )
  ],
  ntfy: ({ markdown, actions }) => [...(markdown === undefined ? [] : ['markdown']), ...(actions ?? [])],
  telegram: ({ parse_mode }) => (parse_mode === undefined ? [] : [parse_mode]),
  // Its body is plain text: mail.test.ts.
  email: () => []
}

for (const kind of Object.keys(markup) as Array<keyof typeof markup>) {
  t.test(`nothing that a pipeline sends becomes a mention, a link or a picture in ${kind}`, async t => {
    for (const text of hostile) {
      const provenance = {
        source: 'cli',
        commit: 'a'.repeat(40),
        branch: text,
        tag: null,
        author: text,
        subject: text,
        dirty: null,
        repository: null,
        ci: { system: text, run: text, url: text, pipeline: null, job: null },
        by: null
      } as unknown as Provenance
      const given = occasion({
        event: 'deploy_failure',
        errorMessage: text,
        project: { name: text, deployPath: `/srv/${text}` },
        deployment: { message: text, provenance }
      })
      const payload = payloadOf(notificationOf(given, atMs, null), kind)
      t.same(markup[kind](payload), [], text)
      t.notMatch(JSON.stringify(payload), /(?<!\\)\\u00[01]|\u202e/, 'no control character')
      const token = aReminder({ name: text, projectIds: [text] })
      t.same(markup[kind](payloadOf(tokenNotification(token, atMs, null), kind)), [], `a token named ${text}`)
    }
  })
}

t.test('cuts a text at a whole character and never within an escape', async t => {
  const escape = (character: string): string => (character === '&' ? '&amp;' : character)
  const cases: Array<[text: string, clipping: Parameters<typeof clip>[1], expected: string]> = [
    ['abc', { max: 3 }, 'abc'],
    ['abcd', { max: 3 }, 'ab…'],
    ['a&&', { max: 11, escape }, 'a&amp;&amp;'],
    ['a&&b', { max: 11, escape }, 'a&amp;…'],
    ['😀😀', { max: 8, measure: bytesOf }, '😀😀'],
    ['😀😀', { max: 7, measure: bytesOf }, '😀…'],
    ['"""', { max: 6, measure: jsonBytesOf }, '"""'],
    ['""""', { max: 6, measure: jsonBytesOf }, '"…'],
    ['', { max: 1 }, '']
  ]
  for (const [text, clipping, expected] of cases) t.equal(clip(text, clipping), expected, text)
})

const nothing: Provenance = {
  source: 'cli',
  commit: null,
  branch: null,
  tag: null,
  author: null,
  subject: null,
  dirty: null,
  repository: null,
  ci: null,
  by: null
}
const commit = '0123456789abcdef0123456789abcdef01234567'
const lines: Array<[what: Partial<Provenance>, expected: string | undefined]> = [
  [{}, undefined],
  [{ commit }, '0123456'],
  [{ commit, branch: 'main' }, '0123456 on main'],
  [{ commit, branch: 'main', tag: 'v2' }, '0123456 on v2'],
  [{ branch: 'main' }, 'main'],
  [{ author: 'Ada' }, undefined],
  [{ commit, branch: 'main', author: 'Ada' }, '0123456 on main, by Ada']
]

t.test('formats the commit as a line', async t => {
  for (const [what, expected] of lines) {
    const notification = notificationOf(occasion({ deployment: { provenance: { ...nothing, ...what } } }), 0, null)
    t.equal(chatLines(notification).find(([name]) => name === 'Commit')?.[1], expected)
  }
})

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

t.test('a message about a deployment that waits has links to both decisions', async t => {
  const waiting = notificationOf(
    occasion({
      trigger: 'confirmation',
      event: 'deploy_waiting',
      deployment: { holdUntil: '2030-01-01T01:00:00.000Z' }
    }),
    0,
    'https://deploy.example.org/svc'
  )
  const page = 'https://deploy.example.org/svc/deployments/dep_1'
  for (const kind of notificationKinds.filter(kind => kind !== 'generic')) {
    const text = JSON.stringify(payloadOf(waiting, kind))
    t.match(text, `${page}?decide=confirm`, kind)
    t.match(text, `${page}?decide=revert`, kind)
    t.match(text.replaceAll('\\', ''), 'shop: deployment waits for confirmation until 2030-01-01T01:00:00.000Z', kind)
  }
  t.match(payloadOf(waiting, 'generic'), { url: page, waitsUntil: '2030-01-01T01:00:00.000Z' })
})
