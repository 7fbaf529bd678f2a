import t from 'tap'
import { cookiesOf, setCookie } from '../../../lib/http/core/cookie.js'

t.test('returns the values of the requested cookies in order', async t => {
  const cases: Array<[header: string | undefined, names: string[], values: string[]]> = [
    [undefined, ['a'], []],
    ['', ['a'], []],
    ['a=1', ['a'], ['1']],
    ['b=2; a=1;c=3', ['a'], ['1']],
    ['a=1; a=2', ['a'], ['1', '2']],
    ['aa=1; a', ['a'], []],
    ['a=b=c', ['a'], ['b=c']],
    ['a=1; b=2', ['b', 'a'], ['1', '2']],
    [`a=${'x'.repeat(20_000)}`, ['a'], []]
  ]
  for (const [header, names, values] of cases) t.same(cookiesOf(header, names), values, String(header).slice(0, 20))
})

t.test('creates a cookie for this server and its own pages only', async t => {
  const options = { name: 'a', value: 'b', path: '/x/', isSecure: false, maxAgeSeconds: null }
  t.equal(setCookie(options), 'a=b; Path=/x/; HttpOnly; SameSite=Strict')
  t.equal(
    setCookie({ ...options, isSecure: true, maxAgeSeconds: 60 }),
    'a=b; Path=/x/; Max-Age=60; HttpOnly; SameSite=Strict; Secure'
  )
  t.match(setCookie({ ...options, value: '', maxAgeSeconds: 0 }), 'a=; Path=/x/; Max-Age=0;')
})
