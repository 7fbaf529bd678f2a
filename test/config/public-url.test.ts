import t from 'tap'
import { readPublicUrl } from '../../lib/config/public-url.js'

const read = (SVC_PUBLIC_URL: string | undefined, base = '') => readPublicUrl({ SVC_PUBLIC_URL }, base)

t.test('addresses that are taken, without a slash at their end', async t => {
  const cases: Array<[text: string | undefined, base: string, expected: string | null]> = [
    [undefined, '', null],
    ['', '/tools/svc', null],
    ['https://deploy.example.org', '', 'https://deploy.example.org'],
    ['https://deploy.example.org/', '', 'https://deploy.example.org'],
    [' http://DEPLOY.example.org:8080/ ', '', 'http://deploy.example.org:8080'],
    ['https://deploy.example.org:443/tools/svc/', '/tools/svc', 'https://deploy.example.org/tools/svc'],
    ['https://[2001:db8::1]/a', '/a', 'https://[2001:db8::1]/a']
  ]
  for (const [text, base, expected] of cases) t.equal(read(text, base), expected, String(text))
})

t.test('what is refused, and how it is said', async t => {
  const cases: Array<[text: string, base: string, sentence: RegExp]> = [
    ['deploy.example.org', '', /^SVC_PUBLIC_URL "deploy\.example\.org" cannot be used: it is an address like "https:/],
    ['/tools/svc', '/tools/svc', /it is an address like/],
    ['ftp://deploy.example.org', '', /it is an address like/],
    ['https://', '', /it is an address like/],
    ['https://me:secret@deploy.example.org', '', /^SVC_PUBLIC_URL "https:\/\/deploy\.example\.org\/" cannot be used: it must not hold a name or a password/],
    ['//me:secret@deploy.example.org', '', /^SVC_PUBLIC_URL "\/\/deploy\.example\.org" cannot/],
    ['https://deploy.example.org?a=1', '', /without "\?" and "#"/],
    ['https://deploy.example.org/#', '', /without "\?" and "#"/],
    ['https://deploy.example.org/tools', '', /the server has no --base, so it must have no path/],
    ['https://deploy.example.org', '/tools/svc', /its path must be that of --base, "\/tools\/svc"/]
  ]
  for (const [text, base, message] of cases) {
    t.throws(() => read(text, base), { kind: 'invalid', code: 'invalid_public_url', field: 'SVC_PUBLIC_URL', message }, text)
  }
})
