import t from 'tap'
import type { Route } from '../../../lib/http/core/route.js'
import { webSocket } from '../../../lib/http/websocket/reply.js'
import { sendRaw, startServer } from '../../support/http-server.js'
import { openWebSocket } from '../../support/websocket.js'
import { until } from '../../support/until.js'

// socket.test.ts tests frames and closing, handshake.test.ts tests refusals.

t.test('turns the reply of a route into a WebSocket, or explains why not', async t => {
  let ran = 0
  const routes: Route[] = [
    {
      method: 'GET',
      path: '/ws',
      auth: 'public',
      handle: () => webSocket({ protocols: ['chat'], run: async () => void ran++ })
    }
  ]
  const { port, url, events } = await startServer(t, routes)
  const plain = await sendRaw(port, 'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  t.match(plain, { status: 426, body: /upgrade_required/ })
  t.equal(ran, 0)
  const opened = await openWebSocket(`${url}/ws`, { headers: { 'sec-websocket-protocol': 'other, chat' } })
  t.match(opened, { status: 101, headers: { 'sec-websocket-protocol': 'chat' } })
  opened.close(1000)
  await opened.rest()
  t.equal(ran, 1)
  await until(() => events.length >= 2)
  t.same(
    events.map(event => (event.kind === 'request' ? event.status : event.kind)),
    [426, 101]
  )
})
