import t from 'tap'
import { forwardedHeader, forwardKeyOf, readForwarded, writeForwarded } from '../../../lib/http/outgoing/forwarded.js'

const key = forwardKeyOf(Buffer.alloc(32, 7))
const client = {
  address: '192.0.2.7',
  witnessed: '192.0.2.7',
  viaProxy: false,
  local: false,
  hub: { name: 'h2', isOwn: false, isSecure: true }
}
const request = { method: 'POST', target: '/api/projects?a=1', headers: { authorization: 'Bearer token' } }
const sent = (header: string, change: object = {}) => {
  const asked = { ...request, ...change }
  return { ...asked, headers: { ...asked.headers, [forwardedHeader]: header } }
}

t.test('a hub reads what another hub of its cluster wrote', async t => {
  t.strictSame(readForwarded(key, sent(writeForwarded(key, client, request))), client)
})

t.test('nothing else is believed', async t => {
  const header = writeForwarded(key, client, request)
  const other = forwardKeyOf(Buffer.alloc(32, 8))
  const claim = Buffer.from(JSON.stringify({ ...client, local: true })).toString('base64url')
  const cases: Array<[string, object]> = [
    ['another key', sent(writeForwarded(other, client, request))],
    ['another method', sent(header, { method: 'DELETE' })],
    ['another target', sent(header, { target: '/api/projects?a=2' })],
    ['another token', sent(header, { headers: { authorization: 'Bearer other' } })],
    ['a cookie', sent(header, { headers: { ...request.headers, cookie: 'a=b' } })],
    ['another claim', sent(`${claim}.${header.split('.')[1]}`)],
    ['no signature', sent(claim)],
    ['an empty header', sent('')],
    ['a long header', sent(`${'a'.repeat(5000)}.${header.split('.')[1]}`)],
    ['no header', request]
  ]
  for (const [what, given] of cases) t.equal(readForwarded(key, given as typeof request), null, what)
})
