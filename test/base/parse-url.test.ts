import t from 'tap'
import { parseUrl } from '../../lib/base/parse-url.js'

t.test('returns a URL, or null', async t => {
  t.equal(parseUrl('https://a.example/b')?.pathname, '/b')
  for (const text of ['', 'a b', '//a', 'http://', 'https://[']) t.equal(parseUrl(text), null, text)
})
