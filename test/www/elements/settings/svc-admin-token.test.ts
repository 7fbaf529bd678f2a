import '../../../support/without-dom.js'
import t from 'tap'
import { checkNewToken, weaknessOf } from '../../../../lib/access/admin-token.js'
import { strengthOf, strongToken } from '../../../../www/elements/settings/svc-admin-token.js'

t.test('rates a token like the server', async t => {
  for (const [token, level] of [
    ['short', 'refused'],
    ['with a space', 'refused'],
    ['schön-genug-lang', 'refused'],
    ['12345678', 'weak'],
    ['a-longer-one-without-digits', 'weak'],
    ['123456789012345678901234567', 'weak'],
    ['aaaaaaaaaaaaaaaaaaaaaaa1b', 'weak'],
    ['correct-horse-battery-staple-7', 'strong']
  ] as const) {
    t.equal(strengthOf(token)?.level, level, token)
    let isTaken = true
    try {
      checkNewToken(token, 'newToken')
    } catch {
      isTaken = false
    }
    t.equal(isTaken, level !== 'refused', `the server ${isTaken ? 'accepts' : 'rejects'} "${token}"`)
    if (isTaken) t.equal(weaknessOf(token) === null, level === 'strong', `and rates it ${level}`)
  }
  t.equal(strengthOf(''), null)
})

t.test('generates a strong token', async t => {
  let isFirst = true
  const token = strongToken(bytes => {
    // The first attempt has neither digits nor variety.
    const given = isFirst ? bytes.fill(0) : crypto.getRandomValues(bytes)
    isFirst = false
    return given
  })
  t.equal(strengthOf(token)?.level, 'strong')
  t.match(token, /^[\w-]{43}$/)
})
