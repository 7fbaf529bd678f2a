import t from 'tap'
import { isFromOtherOrigin, isMeasurable } from '../../../lib/http/core/fetch-site.js'

t.test('detects which page caused a request', async t => {
  const cases: Array<[site: string | undefined, isOther: boolean]> = [
    [undefined, false],
    ['same-origin', false],
    ['none', false],
    ['same-site', true],
    ['cross-site', true],
    ['nonsense', true]
  ]
  for (const [site, isOther] of cases) {
    t.equal(isFromOtherOrigin(site === undefined ? {} : { 'sec-fetch-site': site }), isOther, String(site))
  }
})

t.test('treats answers to cookies as measurable unless the panel asked', async t => {
  t.equal(isMeasurable({}), false, 'no cookie')
  t.equal(isMeasurable({ cookie: 'a=b' }), true)
  t.equal(isMeasurable({ cookie: 'a=b', 'sec-fetch-site': 'same-origin' }), false)
  t.equal(isMeasurable({ cookie: 'a=b', 'x-svc-panel': '1' }), false)
  t.equal(isMeasurable({ cookie: 'a=b', authorization: 'Bearer x' }), false)
})
