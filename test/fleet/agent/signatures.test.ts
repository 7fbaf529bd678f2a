import t from 'tap'
import { generateKeyPairSync, sign } from 'node:crypto'
import { openAgentKey } from '../../../lib/fleet/agent/identity.js'
import { isSignedBy, publicKeyOf, signedHeaders } from '../../../lib/fleet/agent/signatures.js'
import { requestText } from '../../../lib/model/fleet-wire.js'

t.test('a request is signed with the key of the agent', async t => {
  const { key, publicKey } = await openAgentKey(t.testdir())
  const request = { nodeId: 'n', session: 's', counter: 3, method: 'GET', path: '/api/x', bodySha256: 'aa' }
  const { authorization = '', ...others } = signedHeaders(key, request)
  const [scheme, nodeId, session, counter, signature = ''] = authorization.split(' ')
  t.strictSame([scheme, nodeId, session, counter], ['SvcNode', 'n', 's', '3'])
  t.strictSame(others, { 'svc-content-sha256': 'aa' })
  const verifier = publicKeyOf(publicKey)
  if (verifier === null) throw new Error('no key')
  const base64 = Buffer.from(signature, 'base64url').toString('base64')
  t.ok(isSignedBy(verifier, requestText(request), base64))
  t.notOk(isSignedBy(verifier, requestText({ ...request, counter: 4 }), base64))
})

t.test('only the key of the hub has signed', async t => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const bytes = publicKey.export({ type: 'spki', format: 'der' }).subarray(12).toString('base64')
  const key = publicKeyOf(bytes)
  if (key === null) throw new Error('no key')
  const signature = sign(null, Buffer.from('text'), privateKey).toString('base64')
  t.ok(isSignedBy(key, 'text', signature))
  t.notOk(isSignedBy(key, 'other', signature))
  t.notOk(isSignedBy(key, 'text', ''))
  t.equal(publicKeyOf('AAAA'), null)
})
