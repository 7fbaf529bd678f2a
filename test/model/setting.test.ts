import t from 'tap'
import {
  checkSeen,
  kindDomains,
  maskedAddress,
  notificationKinds,
  signingSecretFault,
  suggestedKind
} from '../../lib/model/setting.js'

t.test('suggests the kind for the domain of an address, but not for a similar domain', async t => {
  for (const { domain, kind } of kindDomains) {
    t.equal(suggestedKind(domain), kind, domain)
    t.equal(suggestedKind(`eu.${domain.toUpperCase()}.`), kind, `a subdomain of ${domain}`)
    t.equal(suggestedKind(`not${domain}`), 'generic', `not${domain}`)
    t.ok(notificationKinds.includes(kind))
  }
})

t.test('masks user, path and query of an address', async t => {
  t.equal(maskedAddress('https://user:word@hooks.example:8443/secret?key=1#a'), 'https://hooks.example:8443/…')
  t.equal(maskedAddress('not an address'), '')
})

const usable = ['', 'any text', 'whsec_TWFu', 'whsec_TWE=', 'whsec_TQ==', 'whsec_TWFuTQ']
const refused = ['whsec_', 'whsec_not base64', 'whsec_TWFu!', 'whsec_T', 'whsec_TQ===', 'whsec_TQ==TWFu']

t.test('requires base64 after "whsec_"', async t => {
  for (const secret of usable) t.equal(signingSecretFault(secret), null, secret)
  for (const secret of refused) t.type(signingSecretFault(secret), 'string', secret)
})

t.test('refuses a change if the record is not in a state that the client expects', async t => {
  t.doesNotThrow(() => checkSeen({}, 'b', 'The tag'))
  t.doesNotThrow(() => checkSeen({ seen: ['a', 'b'] }, 'b', 'The tag'))
  t.throws(() => checkSeen({ seen: ['a'] }, 'b', 'The tag'), {
    kind: 'precondition',
    code: 'changed_since',
    message: 'The tag has changed since the state in If-Match. Read it again'
  })
  t.throws(() => checkSeen({ seen: [] }, 'b', 'The tag'), { code: 'changed_since' })
})
