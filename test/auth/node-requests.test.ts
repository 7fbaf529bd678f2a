import { generateKeyPairSync, sign } from 'node:crypto'
import t from 'tap'
import { createNodeRequests } from '../../lib/auth/node-requests.js'
import { randomIds } from '../../lib/base/ids.js'
import { requestText } from '../../lib/model/fleet-wire.js'
import { deleteNode, insertNode } from '../../lib/store/tables/nodes.js'
import { aNode } from '../support/fleet-stage.js'
import { openStage } from '../support/store.js'

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const bytes = Buffer.from(publicKey.export({ format: 'jwk' }).x as string, 'base64url')
const digest = 'a'.repeat(64)

interface Sent {
  session: string
  counter: number | string
  path?: string
  search?: string
  method?: 'GET' | 'POST'
  signed?: Partial<Parameters<typeof requestText>[0]>
}

function requestOf({ session, counter, path = '/api/agent/reports', search = '', method = 'POST', signed }: Sent) {
  const all = path + (search && `?${search}`)
  const text = requestText({ nodeId: 'node_a', session, counter, method, path: all, bodySha256: digest, ...signed })
  const authorization = `SvcNode node_a ${session} ${counter} ${sign(null, Buffer.from(text), privateKey).toString('base64url')}`
  const headers = { authorization, 'svc-content-sha256': digest }
  return { method, path, query: new URLSearchParams(search), headers }
}

async function openRequests(t: Parameters<typeof openStage>[0]) {
  const { store } = await openStage(t)
  await store.write(tx => insertNode(tx, aNode('a', { publicKey: bytes.toString('base64') })))
  return { store, requests: createNodeRequests({ store, ids: randomIds }) }
}

t.test('returns the node that signed a request', async t => {
  const { requests } = await openRequests(t)
  const session = requests.begin('node_a')
  t.same(requests.verify(requestOf({ session, counter: 1 })), {
    id: 'node_a',
    name: 'plant-a',
    session,
    bodySha256: digest
  })
  t.match(requests.verify(requestOf({ session, counter: 2, path: '/api/agent/relays/r', search: 'part=1&last=1' })), {
    id: 'node_a'
  })
})

t.test('refuses what the key of the node has not signed', async t => {
  const { requests, store } = await openRequests(t)
  const session = requests.begin('node_a')
  const forged: Array<Sent['signed']> = [
    { method: 'GET' },
    { path: '/api/agent/desired' },
    { nodeId: 'node_b' },
    { session: 'other' },
    { counter: 2 },
    { bodySha256: 'b'.repeat(64) }
  ]
  for (const signed of forged)
    t.throws(
      () => requests.verify(requestOf({ session, counter: 1, signed })),
      { code: 'wrong_signature' },
      JSON.stringify(signed)
    )
  for (const authorization of [undefined, 'Bearer x', 'SvcNode node_a x 1 short'])
    t.throws(() => requests.verify({ ...requestOf({ session, counter: 1 }), headers: { authorization } }), {
      code: 'unauthorized'
    })
  await store.write(tx => deleteNode(tx, 'node_a'))
  t.throws(() => requests.verify(requestOf({ session, counter: 1 })), { code: 'node_unknown' })
})

t.test('accepts each number of a session once, in any order within a window', async t => {
  const { requests } = await openRequests(t)
  const session = requests.begin('node_a')
  const accepts = (counter: number | string): boolean => {
    try {
      requests.verify(requestOf({ session, counter }))
      return true
    } catch (error) {
      t.match(error, { code: 'request_repeated' })
      return false
    }
  }
  t.same([2, 1, 2, 1, 3].map(accepts), [true, true, false, false, true])
  t.same([1500, 477, 476, 477, 1500].map(accepts), [true, true, false, false, false])
  t.same([2524, 1501, 1500].map(accepts), [true, true, false], 'numbers of a part of the window that is used again')
  t.same(['x', 0, '-1', '99999999999999999999'].map(accepts), [false, false, false, false])
})

t.test('keeps the last two sessions of a node', async t => {
  const { requests } = await openRequests(t)
  const [first, second, third] = [1, 2, 3].map(() => requests.begin('node_a')) as [string, string, string]
  t.throws(() => requests.verify(requestOf({ session: first, counter: 1 })), { code: 'session_unknown' })
  for (const session of [second, third]) t.equal(requests.verify(requestOf({ session, counter: 1 })).session, session)
  requests.end('node_a')
  t.throws(() => requests.verify(requestOf({ session: third, counter: 2 })), { code: 'session_unknown' })
})

t.test('accepts a request without a session only to begin one', async t => {
  const { requests } = await openRequests(t)
  const begin = { session: '-', counter: 'nonce' }
  t.equal(requests.verify(requestOf({ ...begin, path: '/api/agent/session' })).session, '-')
  t.throws(() => requests.verify(requestOf(begin)), { code: 'session_unknown' })
})
