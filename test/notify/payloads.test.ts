import t from 'tap'
import { notificationOf } from '../../lib/notify/events.js'
import { complaintIn, formOf, payloadOf } from '../../lib/notify/payloads.js'
import type { Provenance } from '../../lib/model/provenance.js'
import { occasion } from '../support/occasion.js'

const hosts: Array<[host: string, form: string]> = [
  ['open.feishu.cn', 'post'],
  ['feishu.cn', 'post'],
  ['OPEN.FEISHU.CN', 'post'],
  ['open.larksuite.com', 'post'],
  ['open.larksuite.com.', 'post'],
  ['oapi.dingtalk.com', 'markdown'],
  ['notdingtalk.com', 'generic'],
  ['myfeishu.cn', 'generic'],
  ['feishu.cn.example.com', 'generic'],
  ['larksuite.community', 'generic'],
  ['127.0.0.1', 'generic'],
  ['[::1]', 'generic']
]

for (const [host, form] of hosts) {
  t.test(`${host} gets the ${form} form`, async t => {
    t.equal(formOf(host), form)
  })
}

const atMs = Date.parse('2030-01-02T03:04:05Z')
const failed = notificationOf(occasion({
  trigger: 'rollback',
  event: 'deploy_failure',
  errorMessage: 'The script ended\nwith exit code 1',
  deployment: { status: 'failed', rollbackOf: 'dep_0', message: 'see [this](https://evil.test) <b>now</b>' }
}), atMs, null)
const linked = notificationOf(occasion(), atMs, 'https://deploy.example.org')

t.test('generic: the fields of the specification, the message and the link, nothing else', async t => {
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
    url: null
  })
  t.match(payloadOf(linked, 'generic'), { errorMessage: null, deployment: { rollbackOf: null }, url: 'https://deploy.example.org/deployments/dep_1' })
})

t.test('post: rich text, the keyword in title and text', async t => {
  t.same(payloadOf(failed, 'post'), {
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

t.test('markdown: the keyword in title and text, and what others wrote makes no links', async t => {
  t.same(payloadOf(failed, 'markdown'), {
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

t.test('chat messages link to the deployment where the server knows how people reach it', async t => {
  const url = 'https://deploy.example.org/deployments/dep_1'
  const { content } = (payloadOf(linked, 'post') as any).content.post.zh_cn
  t.same(content.at(-1), [{ tag: 'a', text: 'To this deployment', href: url }])
  t.match((payloadOf(linked, 'markdown') as any).markdown.text, new RegExp(`\\n\\n\\[To this deployment\\]\\(${url}\\)$`))
})

t.test('no form tells a secret of the project', async t => {
  for (const form of ['generic', 'post', 'markdown'] as const) t.notMatch(JSON.stringify(payloadOf(failed, form)), 'secret')
})

t.test('chat messages stay short, the generic one is whole', async t => {
  const long = notificationOf(occasion({ errorMessage: 'x'.repeat(50_000) }), atMs, null)
  t.ok(JSON.stringify(payloadOf(long, 'post')).length < 3_000)
  t.ok(JSON.stringify(payloadOf(long, 'markdown')).length < 3_000)
  t.ok(JSON.stringify(payloadOf(long, 'generic')).length > 50_000)
})

t.test('a chat service complains in the body of a 200', async t => {
  const cases: Array<[answer: string | null, form: 'post' | 'markdown' | 'generic', expected: string | null]> = [
    ['{"code":0,"msg":"success"}', 'post', null],
    ['{"code":19024,"msg":"Key Words Not Found"}', 'post', 'answered with the error code 19024'],
    ['{"errcode":0,"errmsg":"ok"}', 'markdown', null],
    ['{"errcode":310000,"errmsg":"keywords not in content"}', 'markdown', 'answered with the error code 310000'],
    ['ok', 'markdown', null],
    ['null', 'post', null],
    [null, 'post', null],
    ['{"code":1}', 'generic', null]
  ]
  for (const [answer, form, expected] of cases) t.equal(complaintIn(answer, form), expected, `${form}: ${answer}`)
})

t.test('where it comes from, in every form', async t => {
  const provenance: Provenance = {
    source: 'cli', commit: '0123456789abcdef0123456789abcdef01234567', branch: 'fix_[x](https://evil.test)', tag: null, author: 'Ada', subject: 'Lower the prices',
    dirty: null, repository: 'https://git.test/shop', by: null, ci: { system: 'Drone', run: '42', url: 'https://drone.test/42', actor: 'ada' }
  }
  const from = (claim: Partial<Provenance>) =>
    notificationOf(occasion({ deployment: { message: null, provenance: { ...provenance, ...claim } } }), atMs, null)
  t.match(payloadOf(from({}), 'generic'), { message: null, deployment: { provenance } })
  const post = JSON.stringify(payloadOf(from({ branch: 'main' }), 'post'))
  for (const line of ['Message: Lower the prices', 'Commit: 0123456 on main, by Ada', 'CI run: Drone 42, https://drone.test/42']) t.match(post, line)
  t.match(JSON.stringify(payloadOf(from({ commit: null, branch: 'main', author: null, ci: null }), 'post')), '"Commit: main"')
  t.notMatch(JSON.stringify(payloadOf(from({ commit: null, branch: null, author: 'Ada', ci: null }), 'post')), /Commit|CI run/)
  t.notMatch(JSON.stringify(payloadOf(from({}), 'markdown')), /[^\\]\]\(https:\/\/evil/)
})
