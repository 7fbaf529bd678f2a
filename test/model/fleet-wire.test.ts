import t from 'tap'
import { hubKeyText, inputText, orderText, relayText, releaseText, requestText } from '../../lib/model/fleet-wire.js'

const order = {
  projectId: 'p1',
  rolloutId: 'ro_1',
  number: 4,
  attempt: 2,
  action: 'swap',
  deployId: 'dep_1',
  treeSha256: 'aa',
  archiveSha256: 'bb',
  archiveBytes: 10
} as const
const request = { nodeId: 'n1', session: 's', counter: 7, method: 'POST', path: '/api/agent/reports', bodySha256: 'cc' }
const relay = { id: 'r1', request: '{"path":"logs"}' }
const input = { id: 'r1', number: 3, bytes: 'bHM=' }

t.test('every signed text names its kind, its node and each of its fields', async t => {
  t.equal(orderText('n1', order), 'svc-agent-order 1\nn1\np1\nro_1\n4\n2\nswap\ndep_1\naa\nbb\n10\n')
  t.equal(requestText(request), 'svc-agent-request 1\nn1\ns\n7\nPOST\n/api/agent/reports\ncc\n')
  t.equal(releaseText('n1', 's', '{}'), 'svc-agent-release 1\nn1\ns\n{}\n')
  t.equal(relayText('n1', 's', relay), 'svc-agent-relay 1\nn1\ns\nr1\n{"path":"logs"}\n')
  t.equal(inputText('n1', 's', input), 'svc-agent-input 1\nn1\ns\nr1\n3\nbHM=\n')
  t.equal(hubKeyText('key'), 'svc-agent-hub-key 1\nkey\n')
})

t.test('a text for one node, session or order is not that of another', async t => {
  const texts = [
    orderText('n1', order),
    orderText('n2', order),
    orderText('n1', { ...order, attempt: 3 }),
    orderText('n1', { ...order, action: 'revert' }),
    requestText(request),
    requestText({ ...request, counter: 8 }),
    requestText({ ...request, session: 't' }),
    relayText('n1', 's', relay),
    relayText('n1', 't', relay),
    inputText('n1', 's', input),
    inputText('n1', 's', { ...input, number: 4 })
  ]
  t.equal(new Set(texts).size, texts.length)
})
