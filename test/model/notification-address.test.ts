import t from 'tap'
import { readMailAddress, targetAddressFault, targetSecretFault } from '../../lib/model/notification-address.js'

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
