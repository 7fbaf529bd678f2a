import t from 'tap'
import {
  checkSeen,
  kindDomains,
  maskedAddress,
  notificationKinds,
  signingSecretFault,
  suggestedKind,
  readMailAddress,
  targetAddressFault,
  targetSecretFault
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

t.test('the address of a mail target names the server, the sender and the recipients', async t => {
  const url = 'smtps://ada@mail.example.org?from=svc@example.org&to=ops@example.org,dev@example.org'
  t.match(readMailAddress(url), { from: 'svc@example.org', to: ['ops@example.org', 'dev@example.org'] })
  for (const wrong of [
    'mail.example.org',
    'https://mail.example.org?from=a@b&to=c@d',
    'smtps://ada:secret@mail.example.org?from=a@b.c&to=c@d.e',
    'smtps://mail.example.org?to=c@d.e',
    'smtps://mail.example.org?from=a@b.c',
    'smtps://mail.example.org?from=a@b.c&to=c@d.e,nobody',
    'smtps://mail.example.org?from=a@b.c%0d%0aRCPT&to=c@d.e',
    'smtps://a%zz@mail.example.org?from=a@b.c&to=c@d.e'
  ])
    t.type(readMailAddress(wrong), 'string', wrong)
})

t.test('each kind needs its own parts', async t => {
  const faults = [
    targetAddressFault('telegram', 'https://api.telegram.org/'),
    targetAddressFault('ntfy', 'https://ntfy.sh/'),
    targetAddressFault('generic', 'smtps://mail.example.org'),
    targetSecretFault('telegram', ''),
    targetSecretFault('ntfy', 'two words'),
    targetSecretFault('generic', 'whsec_!')
  ]
  t.ok(faults.every(fault => fault !== null))
  t.equal(targetAddressFault('telegram', 'https://api.telegram.org/?chat_id=-1001234'), null)
  t.equal(targetAddressFault('ntfy', 'https://ntfy.example.org/below/alerts'), null)
  t.equal(targetSecretFault('telegram', '123456:ABC-def'), null)
  t.equal(targetSecretFault('email', 'whsec_!'), null, 'a password may be anything')
})
