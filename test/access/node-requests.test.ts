import { generateKeyPairSync, sign } from 'node:crypto'
import t from 'tap'
import { createNodeRequests } from '../../lib/access/node-requests.js'
import { requestText } from '../../lib/model/fleet-wire.js'
import { deleteNode, insertNode } from '../../lib/core/store/tables/fleet.js'
import { Refusal } from '../../lib/base/errors.js'
import { aNode } from '../support/fleet-stage.js'
import { changedText, createRandom } from '../support/random.js'
import { openStage } from '../support/store.js'
import { firstSeed } from '../support/thorough.js'

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
  return { store, requests: createNodeRequests({ store }) }
}

t.test('returns the node that signed a request', async t => {
  const { requests } = await openRequests(t)
  const session = requests.begin('node_a', 2)
  t.same(requests.verify(requestOf({ session, counter: 1 })), {
    id: 'node_a',
    name: 'plant-a',
    session,
    counter: '1',
    protocol: 2,
    bodySha256: digest
  })
  t.match(requests.verify(requestOf({ session, counter: 2, path: '/api/agent/relays/r', search: 'part=1&last=1' })), {
    id: 'node_a'
  })
})

t.test('refuses what the key of the node has not signed', async t => {
  const { requests, store } = await openRequests(t)
  const session = requests.begin('node_a', 2)
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
  const session = requests.begin('node_a', 2)
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

t.test('keeps the last two sessions of a node that were used', async t => {
  const { requests } = await openRequests(t)
  const [first, second, third, fourth] = [1, 2, 3, 4].map(() => requests.begin('node_a', 2)) as [
    string,
    string,
    string,
    string
  ]
  for (const session of [first, second, fourth])
    t.equal(requests.verify(requestOf({ session, counter: 1 })).session, session)
  for (const [session, what] of [
    [first, 'two others are in use'],
    [third, 'a later one is in use']
  ] as const)
    t.throws(() => requests.verify(requestOf({ session, counter: 2 })), { code: 'session_unknown' }, what)
  t.equal(requests.verify(requestOf({ session: second, counter: 2 })).session, second)
  requests.end('node_a')
  t.throws(() => requests.verify(requestOf({ session: `${fourth}x`, counter: 2 })), { code: 'session_unknown' })
})

t.test('names of sessions cannot be made up, and are those of one node and one process', async t => {
  const { requests } = await openRequests(t)
  const { requests: others } = await openRequests(t)
  for (const session of [
    others.begin('node_a', 2),
    requests.begin('node_b', 2),
    requests.begin('node_a', 2).replace(/^2/, '1'),
    requests.begin('node_a', 2).replace(/-\d+-/, '-99-'),
    '2-1-',
    'x'
  ])
    t.throws(() => requests.verify(requestOf({ session, counter: 1 })), { code: 'session_unknown' }, session)
})

t.test('accepts a request without a session only to begin one, and each nonce once', async t => {
  const { requests } = await openRequests(t)
  const begin = { session: '-', counter: 'nonce' }
  t.match(requests.verify(requestOf({ ...begin, path: '/api/agent/session' })), { session: '-', protocol: 0 })
  t.throws(() => requests.verify(requestOf({ ...begin, path: '/api/agent/session' })), { code: 'request_repeated' })
  t.throws(() => requests.verify(requestOf({ ...begin, counter: 'other' })), { code: 'session_unknown' })
})

t.test('begins that nobody uses end no session', async t => {
  const { requests } = await openRequests(t)
  const session = requests.begin('node_a', 2)
  requests.verify(requestOf({ session, counter: 1 }))
  for (let count = 0; count < 1000; count++) requests.begin('node_a', 2)
  t.equal(requests.verify(requestOf({ session, counter: 2 })).session, session)
  t.throws(() => requests.verify(requestOf({ session, counter: 1 })), { code: 'request_repeated' })
})

t.test('refuses every request that was changed on its way', async t => {
  const random = createRandom(firstSeed)
  const { requests } = await openRequests(t)
  const session = requests.begin('node_a', 2)
  for (let n = 0; n < 500; n++) {
    const sent = requestOf({ session, counter: 1, search: 'part=1' })
    const { path, headers } = sent
    const { authorization } = headers
    const changes = [
      { path: changedText(random, path) },
      { query: new URLSearchParams(changedText(random, 'part=1')) },
      { method: 'GET' as const },
      { headers: { ...headers, authorization: changedText(random, authorization) } },
      { headers: { ...headers, 'svc-content-sha256': changedText(random, digest) } }
    ]
    const changed = { ...sent, ...random.oneOf(changes) }
    // Other texts of the same bytes are the same signature.
    const isSame = signatureOf(changed.headers.authorization) === signatureOf(authorization)
    if (changed.path === path && changed.query.get('part') === '1' && changed.headers !== headers && isSame) continue
    const what = `seed ${firstSeed}, ${n}: ${JSON.stringify({ ...changed, query: String(changed.query) })}`
    try {
      requests.verify(changed)
      t.fail(what)
    } catch (error) {
      if (!(error instanceof Refusal)) t.fail(`${what}: ${(error as Error).stack}`)
    }
  }
  t.match(requests.verify(requestOf({ session, counter: 1 })), { id: 'node_a' }, 'the session goes on')
})

/** The words of an authorization, its signature as bytes. */
function signatureOf(authorization: string): string {
  const words = authorization.split(' ')
  return [...words.slice(0, -1), Buffer.from(words.at(-1) ?? '', 'base64url').toString('hex')].join(' ')
}
