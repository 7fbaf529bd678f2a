import t from 'tap'
import { openHubUrl } from '../../../lib/http/outgoing/hub-url.js'

t.test('nothing is sent unencrypted to another machine', async t => {
  const cases: Array<[url: string, isSent: boolean]> = [
    ['https://h1.example.org', true],
    ['http://127.0.0.1:5431', true],
    ['http://127.8.9.10', true],
    ['http://[::1]:5431/base', true],
    ['http://localhost', true],
    ['http://192.0.2.9', false],
    ['http://h1', false],
    ['http://localhost.example.org', false],
    ['http://127.0.0.1.example.org', false],
    ['http://[::ffff:192.0.2.9]', false]
  ]
  for (const [url, isSent] of cases) {
    if (isSent) t.equal(openHubUrl(url, false).href, new URL(url).href)
    else t.throws(() => openHubUrl(url, false), { code: 'hub_not_encrypted' }, url)
    t.equal(openHubUrl(url, true).href, new URL(url).href, 'if it is allowed')
  }
})
