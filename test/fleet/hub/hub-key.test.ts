import { createPublicKey, verify } from 'node:crypto'
import t from 'tap'
import { hubKeyText } from '../../../lib/model/fleet-wire.js'
import { systemActor } from '../../../lib/model/audit.js'
import { createKeeper } from '../../../lib/audit/keeper.js'
import { openFleet } from '../../support/fleet-stage.js'

function isSigned(text: string, { publicKey, signature }: { publicKey: string; signature: string }): boolean {
  const x = Buffer.from(publicKey, 'base64').toString('base64url')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64'))
}

t.test('signs with the key of the server, and says how a new key follows from the earlier one', async t => {
  const { hub, store, clock, ids, serverKey } = await openFleet(t)
  const keeper = createKeeper({ store, clock, ids, key: serverKey, onError: error => t.error(error) })
  const before = await hub.key.current()
  t.ok(isSigned('text', { publicKey: before.publicKey, signature: before.sign('text') }))
  t.same(hub.key.all(), [])
  await keeper.rotateKey(systemActor)
  await keeper.rotateKey(systemActor)
  const after = await hub.key.current()
  const lines = hub.key.all()
  t.same(hub.key.after(before.publicKey), lines)
  t.same(hub.key.after(after.publicKey), [])
  t.equal(lines.length, 2)
  t.equal(lines[1]?.hubKey, after.publicKey)
  let { publicKey } = before
  for (const { hubKey, signature } of lines) {
    t.ok(isSigned(hubKeyText(hubKey), { publicKey, signature }))
    publicKey = hubKey
  }
})
