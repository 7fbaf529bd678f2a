import t from 'tap'
import { isCloseCode } from '../../../lib/http/websocket/frame.js'

t.test('knows the close codes that may be sent (RFC 6455 §7.4, and the registry of IANA)', async t => {
  const good = Array.from({ length: 70_000 }, (_, code) => code).filter(isCloseCode)
  const runs = good
    .filter(code => !good.includes(code - 1))
    .map(code => [code, good.find(end => end >= code && !isCloseCode(end + 1))])
  t.same(runs, [
    [1000, 1003],
    [1007, 1014],
    [3000, 4999]
  ])
})
