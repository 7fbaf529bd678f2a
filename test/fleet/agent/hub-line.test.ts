import t from 'tap'
import { generateKeyPairSync, sign } from 'node:crypto'
import { isGenuine, parseLine } from '../../../lib/fleet/agent/hub-line.js'
import { hubKeyText, inputText, orderText, relayText, type OrderLine } from '../../../lib/model/fleet-wire.js'

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const facts = { nodeId: 'n1', session: 's', hubKey: publicKey }
const signed = (text: string): string => sign(null, Buffer.from(text), privateKey).toString('base64')
const order = {
  projectId: 'p',
  rolloutId: 'ro',
  number: 1,
  attempt: 2,
  action: 'swap',
  deployId: 'd',
  treeSha256: 'aa',
  archiveSha256: 'bb',
  archiveBytes: 3
} as const
const line: OrderLine = { type: 'order', ...order, signature: signed(orderText('n1', order)) }

t.test('lines are read, and those of a later version ignored', async t => {
  t.strictSame(parseLine(JSON.stringify(line)), line)
  t.strictSame(parseLine('{"type":"heartbeat"}'), { type: 'heartbeat' })
  t.equal(parseLine('{"type":"dance"}'), null)
  t.equal(parseLine('{"type":"toString"}'), null)
  t.equal(parseLine(JSON.stringify({ ...line, action: 'dance' })), null)
})

t.test('what is no line is refused', async t => {
  for (const text of ['{', '1', JSON.stringify({ ...line, attempt: '2' }), '{"type":"welcome","version":"1"}'])
    t.throws(() => parseLine(text), { code: 'bad_line' }, text)
})

t.test('a line counts only for its node, its session and its fields', async t => {
  const relay = { id: 'r', request: '{}' }
  const input = { id: 'r', number: 1, bytes: '' }
  t.ok(isGenuine(line, facts))
  t.notOk(isGenuine({ ...line, action: 'revert' }, facts))
  t.notOk(isGenuine(line, { ...facts, nodeId: 'n2' }))
  const relayed = { type: 'relay' as const, ...relay, signature: signed(relayText('n1', 's', relay)) }
  t.ok(isGenuine(relayed, facts))
  t.notOk(isGenuine(relayed, { ...facts, session: 't' }))
  const typed = { type: 'input' as const, ...input, signature: signed(inputText('n1', 's', input)) }
  t.ok(isGenuine(typed, facts))
  t.notOk(isGenuine({ ...typed, number: 2 }, facts))
  t.ok(isGenuine({ type: 'key', hubKey: 'k', signature: signed(hubKeyText('k')) }, facts))
  t.notOk(isGenuine({ type: 'key', hubKey: 'l', signature: signed(hubKeyText('k')) }, facts))
  t.ok(isGenuine({ type: 'heartbeat' }, facts))
})
