import t from 'tap'
import { isSameSecret, digestText } from '../../lib/auth/secret.js'

t.test('compares secrets of any length', async t => {
  const cases: Array<[string, string, boolean]> = [
    ['abc', 'abc', true],
    ['abc', 'abd', false],
    ['abc', 'abcd', false],
    ['', '', true],
    ['', 'a', false],
    ['ä', 'a\u0308', false],
    ['abc\0', 'abc', false],
    ['', '\0', false],
    ['€'.repeat(128), '€'.repeat(128), true],
    ['€'.repeat(128), `${'€'.repeat(127)}₭`, false],
    ['x'.repeat(128), 'x'.repeat(129), false],
    ['x'.repeat(129), 'x'.repeat(128), false],
    ['x'.repeat(4096), 'x'.repeat(4096), true],
    ['x'.repeat(4096), `${'x'.repeat(4095)}y`, false]
  ]
  for (const [given, kept, same] of cases) t.equal(isSameSecret(given, kept), same, `"${given}" and "${kept}"`)
})

t.test('the digest of a secret is its SHA-256 in base64url', async t => {
  t.equal(digestText('abc'), 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0')
})
