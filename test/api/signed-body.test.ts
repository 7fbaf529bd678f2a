import t from 'tap'
import { signedBytes, signedJson } from '../../lib/api/signed-body.js'
import type { ApiRequest } from '../../lib/api/route.js'
import { sha256 } from '../../lib/base/digests.js'

function requestOf(text: string, signed = text): ApiRequest {
  const bodySha256 = sha256(Buffer.from(signed)).toString('hex')
  const bytes = async (): Promise<Buffer> => Buffer.from(text)
  return {
    bytes,
    actor: { node: { id: 'node_a', name: 'plant-a', session: 's', bodySha256 } }
  } as unknown as ApiRequest
}

t.test('reads the body that was signed', async t => {
  t.equal((await signedBytes(requestOf('a body'))).toString(), 'a body')
  t.same(await signedJson(requestOf('{"a":1}')), { a: 1 })
  await t.rejects(signedBytes(requestOf('a body', 'another one')), { code: 'wrong_digest' })
  await t.rejects(signedJson(requestOf('{"a":')), { code: 'invalid_body' })
})
