import t from 'tap'
import type { NotificationKind } from '../../lib/model/notification-target.js'
import { complaintOf, isAboutRate } from '../../lib/notify/complaints.js'

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
