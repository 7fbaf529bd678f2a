import t from 'tap'
import { proxyFor } from '../../../lib/http/outgoing/proxy.js'

const p = 'http://proxy:3128'
const cases: Array<[what: string, url: string, env: Record<string, string>, proxy: string | null]> = [
  ['no variable', 'http://a.test', {}, null],
  ['http by HTTP_PROXY', 'http://a.test', { HTTP_PROXY: p }, 'proxy:3128'],
  ['https not by HTTP_PROXY', 'https://a.test', { HTTP_PROXY: p }, null],
  ['https by HTTPS_PROXY', 'https://a.test', { HTTPS_PROXY: p }, 'proxy:3128'],
  ['lower case wins', 'http://a.test', { HTTP_PROXY: 'http://no:1', http_proxy: p }, 'proxy:3128'],
  ['ALL_PROXY for what is left', 'https://a.test', { HTTP_PROXY: 'http://no:1', ALL_PROXY: p }, 'proxy:3128'],
  ['an address without a scheme', 'http://a.test', { HTTP_PROXY: 'proxy:3128' }, 'proxy:3128'],
  ['an empty variable', 'http://a.test', { HTTP_PROXY: '' }, null],
  ['NO_PROXY *', 'http://a.test', { HTTP_PROXY: p, NO_PROXY: '*' }, null],
  ['NO_PROXY with the host', 'http://a.test', { HTTP_PROXY: p, NO_PROXY: 'b.test, A.TEST' }, null],
  ['NO_PROXY with a domain above it', 'http://x.a.test', { HTTP_PROXY: p, NO_PROXY: 'a.test' }, null],
  ['NO_PROXY with a leading dot', 'http://x.a.test', { HTTP_PROXY: p, NO_PROXY: '.a.test' }, null],
  ['NO_PROXY with *.', 'http://x.a.test', { HTTP_PROXY: p, NO_PROXY: '*.a.test' }, null],
  ['NO_PROXY with a name that only ends alike', 'http://xa.test', { HTTP_PROXY: p, NO_PROXY: 'a.test' }, 'proxy:3128'],
  ['NO_PROXY with the port', 'http://a.test:81', { HTTP_PROXY: p, NO_PROXY: 'a.test:81' }, null],
  ['NO_PROXY with another port', 'http://a.test', { HTTP_PROXY: p, NO_PROXY: 'a.test:81' }, 'proxy:3128'],
  ['NO_PROXY with an address', 'http://127.0.0.1:5431', { HTTP_PROXY: p, NO_PROXY: 'localhost,127.0.0.1' }, null],
  ['NO_PROXY with an IPv6 address', 'http://[::1]:5431', { HTTP_PROXY: p, NO_PROXY: '::1' }, null],
  ['NO_PROXY with an IPv6 address and its port', 'http://[::1]:5431', { HTTP_PROXY: p, NO_PROXY: '[::1]:5431' }, null]
]

for (const [what, url, env, proxy] of cases) {
  t.test(`proxyFor: ${what}`, async t => t.equal(proxyFor(new URL(url), env)?.host ?? null, proxy))
}

t.test('proxyFor refuses an unsupported proxy without showing its password', async t => {
  t.throws(() => proxyFor(new URL('http://a.test'), { HTTP_PROXY: 'socks5://me:secret@proxy' }), {
    kind: 'usage',
    message: 'HTTP_PROXY is invalid: the address of a proxy must begin with http:// or https://'
  })
})
