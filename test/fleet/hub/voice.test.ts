import t, { type Test } from 'tap'
import { createKeeper } from '../../../lib/audit/keeper.js'
import { createKeyring, createStreamReader, readSession } from '../../../lib/fleet/agent/from-hub.js'
import { createVoice } from '../../../lib/fleet/hub/voice.js'
import { systemActor } from '../../../lib/model/audit.js'
import type { DesiredLine } from '../../../lib/model/fleet-wire.js'
import { openFleet } from '../../support/fleet-stage.js'

const asked = { nodeId: 'node_a', session: 's', counter: 3, protocol: 2 }
const input = (number: number): DesiredLine => ({ type: 'input', id: 'r', number, bytes: 'bHM=' })

async function openVoice(t: Test) {
  const { hub, store, clock, ids, serverKey } = await openFleet(t, ['a'])
  const keeper = createKeeper({ store, clock, ids, key: serverKey, onError: error => t.fail(String(error)) })
  const { key } = hub
  const known: string[] = []
  const keyring = createKeyring((await key.current()).publicKey, text => void known.push(text))
  return { key, clock, keyring, known, rotate: () => keeper.rotateKey(systemActor) }
}

t.test('the node reads what the hub says, and learns a new key in between', async t => {
  const { key, clock, keyring, known, rotate } = await openVoice(t)
  const say = createVoice({ key, clock }, asked)
  const read = createStreamReader({ asked, keyring, nowMs: () => 0 })
  const heard = async (...lines: DesiredLine[]) =>
    (await say(lines))
      .trim()
      .split('\n')
      .map(text => read(text))
  t.same(await heard({ type: 'heartbeat' }, input(1)), [{ type: 'heartbeat' }, input(1)])
  await rotate()
  t.same(await heard(input(2)), [null, input(2)])
  t.same(known, [(await key.current()).publicKey])
  await rotate()
  t.same(await heard(input(3)), [null, input(3)])
  await rotate()
  await rotate()
  await t.rejects(say([input(4)]), { code: 'server_key' }, 'a new session says how the keys follow')
})

t.test('the begin of a session names all keys', async t => {
  const { key, keyring, known, rotate } = await openVoice(t)
  await rotate()
  await rotate()
  const begun = { nodeId: 'node_a', counter: 'nonce' }
  const answer = await key.greet({ ...begun, session: 's' })
  t.equal(readSession(answer, { address: 'a', ...begun }, keyring), 's')
  t.same(known, [(await key.current()).publicKey])
})

t.test('an agent of protocol 1 gets lines with the signatures that it checks', async t => {
  const { key, clock, rotate } = await openVoice(t)
  const say = createVoice({ key, clock }, { ...asked, protocol: 1 })
  const said = async (line: DesiredLine) =>
    (await say([line]))
      .trim()
      .split('\n')
      .map(text => JSON.parse(text) as object)
  const { sign } = await key.current()
  t.same(await said(input(1)), [{ ...input(1), signature: sign('svc-agent-input 1\nnode_a\ns\nr\n1\nbHM=\n') }])
  t.same(await said({ type: 'heartbeat' }), [{ type: 'heartbeat' }])
  await rotate()
  t.match(await said({ type: 'heartbeat' }), [{ type: 'key' }, { type: 'heartbeat' }])
})
