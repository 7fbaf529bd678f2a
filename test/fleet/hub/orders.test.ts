import { createPublicKey, verify } from 'node:crypto'
import t from 'tap'
import { createHubKey } from '../../../lib/fleet/hub/hub-key.js'
import { createLinks } from '../../../lib/fleet/hub/links.js'
import { createOrders, ordersOf } from '../../../lib/fleet/hub/orders.js'
import { createKeeper } from '../../../lib/audit/keeper.js'
import { systemActor } from '../../../lib/model/audit.js'
import { orderText, type DesiredLine } from '../../../lib/model/fleet-wire.js'
import { beginRollout } from '../../support/fleet-rollout.js'
import { openFleet } from '../../support/fleet-stage.js'

t.test('signs the orders of a node, and announces a new key before it signs with it', async t => {
  const stage = await openFleet(t, ['a', 'b'])
  const { store, clock, ids, serverKey } = stage
  const key = createHubKey({ store, key: serverKey })
  const links = createLinks(clock)
  const orders = createOrders({ key, links, log: message => t.fail(message) })
  const lines: DesiredLine[] = []
  const sink = {
    signal: new AbortController().signal,
    sendHead() {},
    async write(chunk: string | Uint8Array) {
      for (const line of String(chunk).trim().split('\n')) lines.push(JSON.parse(line) as DesiredLine)
    }
  }
  const running = links.open({ nodeId: 'node_a', session: 's' }).run(sink)
  const id = await beginRollout(stage)
  const given = ordersOf(store, 'node_a')
  t.match(given, [{ nodeId: 'node_a', order: { action: 'prepare', attempt: 1 }, rollout: { id } }])
  orders.send(given)
  orders.send(ordersOf(store, 'node_b'))
  await orders.sent()
  const { publicKey } = await key.current()
  const keeper = createKeeper({ store, clock, ids, key: serverKey, onError: error => t.error(error) })
  await keeper.rotateKey(systemActor)
  orders.send(given)
  await orders.sent()
  await new Promise(resolve => setImmediate(resolve))
  links.closeAll()
  await running
  t.same(
    lines.map(({ type }) => type),
    ['order', 'key', 'order']
  )
  const [first] = lines
  if (first?.type !== 'order') return
  const { type, signature, ...order } = first
  t.match(order, { projectId: 'proj_a', rolloutId: id, number: 1, action: 'prepare', deployId: 'dep_a' })
  const x = Buffer.from(publicKey, 'base64').toString('base64url')
  const known = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  t.ok(verify(null, Buffer.from(orderText('node_a', order)), known, Buffer.from(signature, 'base64')))
  t.notOk(verify(null, Buffer.from(orderText('node_b', order)), known, Buffer.from(signature, 'base64')))
})
