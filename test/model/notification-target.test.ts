import t from 'tap'
import { kindDomains, maskedAddress, notificationKinds, suggestedKind } from '../../lib/model/notification-target.js'

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
