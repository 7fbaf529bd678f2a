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
  ['NO_PROXY with an IPv6 address and its port', 'http://[::1]:5431', { HTTP_PROXY: p, NO_PROXY: '[::1]:5431' }, null],
  ['NO_PROXY with an IPv6 address in another spelling', 'http://[::1]', { HTTP_PROXY: p, NO_PROXY: '0:0::1' }, null],
  ['NO_PROXY with an IPv6 address in brackets', 'http://[fd00::5]', { HTTP_PROXY: p, NO_PROXY: '[fd00::5]' }, null],
  ['NO_PROXY with another port of IPv6', 'http://[::1]:1', { HTTP_PROXY: p, NO_PROXY: '[::1]:2' }, 'proxy:3128'],
  ['NO_PROXY * with a port', 'http://a.test:81', { HTTP_PROXY: p, NO_PROXY: '*:81' }, null],
  ['NO_PROXY with a leading dot and a port', 'http://x.a.test:81', { HTTP_PROXY: p, NO_PROXY: '.a.test:81' }, null],
  ['NO_PROXY with a name that ends with a dot', 'http://a.test', { HTTP_PROXY: p, NO_PROXY: 'a.test.' }, null],
  ['NO_PROXY with a host that ends with a dot', 'http://a.test.', { HTTP_PROXY: p, NO_PROXY: 'a.test' }, null],
  ['NO_PROXY with a block', 'http://10.1.2.3', { HTTP_PROXY: p, NO_PROXY: 'x.test, 10.0.0.0/8' }, null],
  ['NO_PROXY with a block of one address', 'http://10.1.2.3', { HTTP_PROXY: p, NO_PROXY: '10.1.2.3/32' }, null],
  ['NO_PROXY with the block of all', 'http://10.1.2.3', { HTTP_PROXY: p, NO_PROXY: '0.0.0.0/0' }, null],
  ['NO_PROXY with another block', 'http://11.1.2.3', { HTTP_PROXY: p, NO_PROXY: '10.0.0.0/8' }, 'proxy:3128'],
  ['NO_PROXY with a block and its port', 'http://10.1.2.3:81', { HTTP_PROXY: p, NO_PROXY: '10.0.0.0/8:81' }, null],
  [
    'NO_PROXY with a block, another port',
    'http://10.1.2.3',
    { HTTP_PROXY: p, NO_PROXY: '10.0.0.0/8:81' },
    'proxy:3128'
  ],
  ['NO_PROXY with a block of IPv6', 'http://[fd00:1::5]', { HTTP_PROXY: p, NO_PROXY: 'fd00::/8' }, null],
  ['NO_PROXY with a block in brackets', 'http://[fd00:1::5]:81', { HTTP_PROXY: p, NO_PROXY: '[fd00::]/8:81' }, null],
  ['NO_PROXY with another block of IPv6', 'http://[fe80::5]', { HTTP_PROXY: p, NO_PROXY: 'fd00::/8' }, 'proxy:3128'],
  ['NO_PROXY with a block that is none', 'http://10.1.2.3', { HTTP_PROXY: p, NO_PROXY: '10.0.0.0/33' }, 'proxy:3128'],
  [
    'NO_PROXY with a block does not look up names',
    'http://a.test',
    { HTTP_PROXY: p, NO_PROXY: '0.0.0.0/0' },
    'proxy:3128'
  ]
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
