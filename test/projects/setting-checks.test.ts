import t from 'tap'
import {
  absolutePath,
  authorityFile,
  filePlace,
  addresses,
  commitPattern,
  deployToken,
  events,
  httpUrl,
  line,
  onOff,
  webhookSecret,
  whole,
  type Check
} from '../../lib/projects/setting-checks.js'

t.test('returns values as they are stored', async t => {
  const cases: Array<[string, Check, string, string]> = [
    ['httpUrl', httpUrl, '', ''],
    ['httpUrl', httpUrl, 'https://hooks.example/x?key=1', 'https://hooks.example/x?key=1'],
    ['events', events, 'deploy_failure, deploy_success', 'deploy_failure,deploy_success'],
    ['events', events, '', ''],
    ['absolutePath', absolutePath, '/srv/www', '/srv/www'],
    ['absolutePath', absolutePath, '', ''],
    ['authorityFile', authorityFile, '', ''],
    ['filePlace', filePlace, '/mnt/a', '/mnt/a'],
    ['filePlace', filePlace, '>> /mnt/a', '>>/mnt/a'],
    ['filePlace', filePlace, '', ''],
    ['whole', whole(1, 10), '007', '7'],
    ['whole', whole(1, 10), '1', '1'],
    ['whole', whole(1, 10), '10', '10'],
    ['onOff', onOff, '1', 'true'],
    ['onOff', onOff, 'false', 'false'],
    ['deployToken', deployToken, '', ''],
    ['deployToken', deployToken, '12345678', '12345678'],
    ['addresses', addresses, '10.0.0.0/8 , ::1\n192.0.2.1', '10.0.0.0/8,::1,192.0.2.1'],
    ['addresses', addresses, '', ''],
    ['line', line, 'whsec_abc', 'whsec_abc'],
    ['commitPattern', commitPattern, '', ''],
    [
      'commitPattern',
      commitPattern,
      'https://git.test:3000/{repository}?c={commit}',
      'https://git.test:3000/{repository}?c={commit}'
    ]
  ]
  for (const [what, check, given, kept] of cases) t.equal(check(given, 'key'), kept, `${what}: "${given}"`)
})

t.test('refuses wrong values with a reason', async t => {
  const cases: Array<[string, Check, string[]]> = [
    [
      'commitPattern',
      commitPattern,
      [
        'git.test/{commit}',
        'https://git.test/{repository}',
        'https://{repository}/{commit}',
        'https://{host}/{commit}',
        'javascript:{commit}',
        'https://user:pass@git.test/{commit}',
        'https://git.test/{commit}/{x}',
        'https://git.test/ {commit}',
        'https://git.test/{commit}"',
        'https:///{commit}',
        'https://git.test\\@evil.test/{commit}',
        'https://git.test:port/{commit}',
        'https://git.test{commit}'
      ]
    ],
    ['httpUrl', httpUrl, ['hooks.example', 'ftp://x', 'file:///etc/passwd', 'javascript:1', 'https://']],
    ['events', events, ['deploy_succes', 'deploy_success,all']],
    ['filePlace', filePlace, ['www', '>>', '>> www', '>/srv/a']],
    ['authorityFile', authorityFile, ['ca.pem', '/no/such/ca.pem', '/dev/null', '/']],
    ['absolutePath', absolutePath, ['www', './www', '/srv/\u0007bell']],
    ['whole', whole(1, 10), ['', '0', '11', '1.5', '-1', '1e1', 'ten', '0x5', '9999999999999']],
    ['onOff', onOff, ['', 'yes', 'TRUE', '2']],
    ['deployToken', deployToken, ['1234567', 'with a space', 'ümläute-ümläute']],
    ['addresses', addresses, ['10.0.0.0/33', '10.0.0', 'example.org', '10.0.0.1,x', '::1/129']],
    ['line', line, ['two\nlines']]
  ]
  for (const [what, check, refused] of cases) {
    for (const given of refused) {
      t.throws(
        () => check(given, 'key'),
        { kind: 'invalid', code: 'invalid_setting', field: 'key' },
        `${what}: "${given}"`
      )
    }
  }
})

t.test('webhookSecret accepts base64 after whsec_, else any single line', async t => {
  for (const value of ['', 'a secret', 'whsec_c2VjcmV0', 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_c2VjcmU=']) {
    t.equal(webhookSecret(value, 'webhook_secret'), value)
  }
  for (const value of ['whsec_', 'whsec_*', 'whsec_c2Vj cmV0', 'whsec_c', 'two\nlines']) {
    t.throws(() => webhookSecret(value, 'webhook_secret'), { code: 'invalid_setting' }, value)
  }
})
