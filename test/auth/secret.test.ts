import t from 'tap'
import { digestOf, isSameSecret } from '../../lib/auth/secret.js'

t.test('secrets are the same or not, whatever their lengths', async t => {
  const cases: Array<[string, string, boolean]> = [
    ['abc', 'abc', true],
    ['abc', 'abd', false],
    ['abc', 'abcd', false],
    ['', '', true],
    ['', 'a', false],
    ['ä', 'a\u0308', false]
  ]
  for (const [given, kept, same] of cases) t.equal(isSameSecret(given, kept), same, `"${given}" and "${kept}"`)
  t.equal(digestOf('x').length, digestOf('x'.repeat(1000)).length)
})
