import t from 'tap'
import { readPublicUrl } from '../../lib/config/public-url.js'
import { configSays } from '../support/sentences/config.js'

const read = (SVC_PUBLIC_URL: string | undefined, base = '') => readPublicUrl({ SVC_PUBLIC_URL }, base)

t.test('returns public addresses without a trailing slash', async t => {
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

t.test('refuses invalid public addresses and says why', async t => {
  const cases: Array<[text: string, base: string, sentence: string]> = [
    ['deploy.example.org', '', configSays.publicUrl('deploy.example.org') + configSays.publicUrlForm],
    ['/tools/svc', '/tools/svc', configSays.publicUrlForm],
    ['ftp://deploy.example.org', '', configSays.publicUrlForm],
    ['https://', '', configSays.publicUrlForm],
    [
      'https://me:secret@deploy.example.org',
      '',
      configSays.publicUrl('https://deploy.example.org/') + configSays.publicUrlPassword
    ],
    ['//me:secret@deploy.example.org', '', configSays.publicUrl('//deploy.example.org')],
    ['https://deploy.example.org?a=1', '', configSays.publicUrlQuery],
    ['https://deploy.example.org/#', '', configSays.publicUrlQuery],
    ['https://deploy.example.org/tools', '', configSays.publicUrlNoBase],
    ['https://deploy.example.org', '/tools/svc', configSays.publicUrlBase('/tools/svc')]
  ]
  for (const [text, base, message] of cases) {
    t.throws(
      () => read(text, base),
      { kind: 'invalid', code: 'invalid_public_url', field: 'SVC_PUBLIC_URL', message },
      text
    )
  }
})
