import t from 'tap'
import { codeOf, newRecoveryCodes, newSecret, otpauthOf, recoveryDigest, stepOf } from '../../lib/auth/totp.js'

/** "12345678901234567890" in base32. */
const secret = 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'

t.test('RFC 4226, appendix D', async t => {
  const codes = ['755224', '287082', '359152', '969429', '338314', '254676', '287922', '162583', '399871', '520489']
  for (const [step, code] of codes.entries()) t.equal(codeOf(secret, step), code)
})

t.test('RFC 6238, appendix B, last six digits', async t => {
  const cases: Array<[seconds: number, code: string]> = [
    [59, '287082'],
    [1111111109, '081804'],
    [1111111111, '050471'],
    [1234567890, '005924'],
    [2000000000, '279037'],
    [20000000000, '353130']
  ]
  for (const [seconds, code] of cases) {
    t.equal(codeOf(secret, Math.floor(seconds / 30)), code)
    t.equal(stepOf(code, { secret, nowMs: seconds * 1000, lastStep: 0 }), Math.floor(seconds / 30))
  }
})

t.test('a code is accepted one step early or late, and once', async t => {
  const nowMs = 1_000_000 * 30_000
  const at = (step: number, lastStep = 0) => stepOf(codeOf(secret, step), { secret, nowMs, lastStep })
  t.same(
    [-2, -1, 0, 1, 2].map(by => at(1_000_000 + by)),
    [null, 999_999, 1_000_000, 1_000_001, null]
  )
  t.equal(at(1_000_000, 1_000_000), null, 'it was used')
  t.equal(at(999_999, 1_000_000), null, 'an earlier one is not accepted either')
  t.equal(at(1_000_001, 1_000_000), 1_000_001)
  const spaced = codeOf(secret, 1_000_000).replace(/^(...)/, '$1 ')
  t.equal(stepOf(spaced, { secret, nowMs, lastStep: 0 }), 1_000_000)
  for (const wrong of ['', '12345', '1234567', 'abcdef', '١٢٣٤٥٦'])
    t.equal(stepOf(wrong, { secret, nowMs, lastStep: 0 }), null, wrong)
})

t.test('a secret has 160 bits, and its address is read by authenticators', async t => {
  const one = newSecret()
  t.match(one, /^[A-Z2-7]{32}$/)
  t.not(one, newSecret())
  const link = new URL(otpauthOf({ secret: one, account: 'Ana & Bob', issuer: 'svc deploy.example.com' }))
  t.equal(link.protocol, 'otpauth:')
  t.same(Object.fromEntries(link.searchParams), {
    secret: one,
    issuer: 'svc deploy.example.com',
    algorithm: 'SHA1',
    digits: '6',
    period: '30'
  })
  t.match(link.pathname, 'svc%20deploy.example.com:Ana%20%26%20Bob')
})

t.test('recovery codes are random, and typed in any way', async t => {
  const codes = newRecoveryCodes()
  t.equal(new Set(codes).size, 10)
  for (const code of codes) t.match(code, /^([a-z2-7]{4}-){3}[a-z2-7]{4}$/)
  t.equal(recoveryDigest('ABCD efgh-ijkl mnop'), recoveryDigest('abcd-efgh-ijkl-mnop'))
  t.not(recoveryDigest('abcd-efgh-ijkl-mnop'), recoveryDigest('abcd-efgh-ijkl-mnoq'))
})
