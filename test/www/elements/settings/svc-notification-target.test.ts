import '../../../support/without-dom.js'
import t from 'tap'
import { eventKeys, kindDomains, notificationKinds } from '../../../../lib/model/setting.js'
import {
  eventRows,
  kindOfAddress,
  kindRow,
  kindRows
} from '../../../../www/elements/settings/svc-notification-target.js'
import { takesSecret } from '../../../../lib/operate/notify/payloads.js'

t.test('has a label for every kind and event of the server, and knows which kinds have a secret', async t => {
  t.same(
    kindRows.map(({ kind }) => kind),
    notificationKinds
  )
  t.same(
    eventRows.map(({ event }) => event),
    eventKeys
  )
  for (const { kind, secret } of kindRows) t.equal(secret, takesSecret(kind), kind)
  t.equal(kindRow('wecom').words, 'WeCom')
})

const addresses: Array<[address: string, expected: string | null]> = [
  ['https://hooks.slack.com/services/T0/B0/x', 'slack'],
  [' https://user:pass@OPEN.FEISHU.CN./hook', 'feishu'],
  ['https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=x', 'wecom'],
  ['https://prod-1.westus.logic.azure.com:443/workflows/x', 'teams'],
  ['http://ci.example/hook?to=hooks.slack.com', 'generic'],
  ['https://nothooks.slack.com', 'generic'],
  ['hooks.slack.com', null],
  ['https://', null],
  ['', null]
]

t.test('suggests a kind for an address', async t => {
  for (const [address, expected] of addresses) t.equal(kindOfAddress(address, kindDomains), expected, address)
})
