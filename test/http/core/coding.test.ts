import t from 'tap'
import { chooseCoding, wantsGzip } from '../../../lib/http/core/coding.js'

t.test('chooses the best accepted coding', async t => {
  const cases: Array<[string | undefined, string]> = [
    [undefined, 'identity'],
    ['', 'identity'],
    ['gzip', 'gzip'],
    ['gzip, deflate, br', 'br'],
    ['br;q=0, gzip', 'gzip'],
    ['GZIP ; q=0.5', 'gzip'],
    ['gzip;q=0', 'identity'],
    ['x-gzip', 'identity'],
    ['identity', 'identity']
  ]
  for (const [accept, coding] of cases) t.equal(chooseCoding(accept), coding, String(accept))
})

t.test('compresses answers that are worth it', async t => {
  t.equal(wantsGzip({ 'accept-encoding': 'gzip' }, 1023), false)
  t.equal(wantsGzip({ 'accept-encoding': 'gzip' }, 1024), true)
  t.equal(wantsGzip({ 'accept-encoding': 'br' }, 5000), false, 'brotli is too slow for changing answers')
  t.equal(wantsGzip({}, 5000), false)
  t.equal(wantsGzip({ 'accept-encoding': 'gzip' }, 5 * 1024 * 1024), false)
})

t.test('compresses an answer to a request with a cookie only if the panel asked', async t => {
  const asked = (headers: Record<string, string>) => wantsGzip({ 'accept-encoding': 'gzip', ...headers }, 5000)
  t.equal(asked({ cookie: 'a=b' }), false, 'a page of another port may have caused it')
  t.equal(asked({ cookie: 'a=b', 'sec-fetch-site': 'same-site' }), false)
  t.equal(asked({ cookie: 'a=b', 'sec-fetch-site': 'none' }), false)
  t.equal(asked({ cookie: 'a=b', 'sec-fetch-site': 'same-origin' }), true)
  t.equal(asked({ cookie: 'a=b', 'x-svc-panel': '1' }), true)
  t.equal(asked({ cookie: 'a=b', authorization: 'Bearer x' }), true)
})
