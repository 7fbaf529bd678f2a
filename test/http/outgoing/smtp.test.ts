import t from 'tap'
import { createSecureContext, type SecureContext } from 'node:tls'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { type Mail, sendMail, stuffed } from '../../../lib/http/outgoing/smtp.js'
import { makeSigned } from '../../support/certificates.js'
import { type SmtpOptions, startSmtp } from '../../support/smtp-server.js'

const { authority, server } = makeSigned()
const trusted = createSecureContext({ ca: authority.cert })

/** A mail server of a kind, and a function that sends it a mail. */
async function stageOf(t: Parameters<typeof startSmtp>[0], given: Omit<SmtpOptions, 'identity'>) {
  const smtp = await startSmtp(t, { identity: server, ...given })
  const scheme = given.tls === 'implicit' ? 'smtps' : 'smtp'
  const send = (more: Partial<Mail> & { secureContext?: SecureContext | undefined } = {}) =>
    sendMail({
      url: new URL(`${scheme}://ada%40example.org@localhost:${smtp.port}`),
      password: 'pass\u00e9',
      from: 'svc@example.org',
      to: ['ops@example.org', 'dev@example.org'],
      message: 'Subject: hello\r\n\r\n.one dot\r\n..two',
      limitMs: 5000,
      secureContext: trusted,
      signal: new AbortController().signal,
      ...more
    })
  return { smtp, send }
}

for (const { tls, auth } of [
  { tls: 'implicit', auth: 'PLAIN' },
  { tls: 'starttls', auth: 'PLAIN' },
  { tls: 'starttls', auth: 'LOGIN' },
  { tls: 'none', auth: 'PLAIN' }
] as const) {
  t.test(`a mail arrives: TLS ${tls}, AUTH ${auth}`, async t => {
    const { smtp, send } = await stageOf(t, { tls, auth })
    t.same(await send(), { outcome: 'sent' })
    t.match(smtp.mails, [
      {
        from: 'svc@example.org',
        to: ['ops@example.org', 'dev@example.org'],
        lines: ['Subject: hello', '', '.one dot', '..two'],
        isSecure: tls !== 'none',
        user: 'ada@example.org',
        password: 'pass\u00e9'
      }
    ])
  })
}

t.test('a certificate that nobody trusts, or of another name, gets no password', async t => {
  for (const tls of ['implicit', 'starttls'] as const) {
    const { smtp, send } = await stageOf(t, { tls, auth: 'PLAIN' })
    t.match(await send({ secureContext: undefined }), { outcome: 'failed', reason: /^the connection failed: / })
    const scheme = tls === 'implicit' ? 'smtps' : 'smtp'
    t.match(await send({ url: new URL(`${scheme}://a@127.0.0.2:${smtp.port}`) }), { outcome: 'failed' })
    t.same(
      smtp.said.filter(line => line.startsWith('AUTH')),
      []
    )
    t.same(smtp.mails, [])
  }
})

t.test('what a mail server refuses for good is refused, the rest may succeed later', async t => {
  for (const [answers, expected] of [
    [{ RCPT: '550 no such user' }, { outcome: 'refused', reason: 'the mail server answered 550: no such user' }],
    [{ AUTH: '535 wrong password' }, { outcome: 'refused' }],
    [{ RCPT: '451 try later' }, { outcome: 'failed', reason: /451: try later/ }],
    [{ '.': '452 full' }, { outcome: 'failed' }],
    [{ EHLO: '502 what' }, { outcome: 'refused', reason: /neither AUTH PLAIN nor AUTH LOGIN/ }]
  ] as const) {
    const { smtp, send } = await stageOf(t, { tls: 'implicit', auth: 'PLAIN', answers })
    t.match(await send(), expected)
    t.same(smtp.mails, [])
  }
})

t.test('a silent server, one that speaks something else, and one that is away', async t => {
  const silent = createServer(socket => socket.on('error', () => {}))
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as AddressInfo
  const { send } = await stageOf(t, { tls: 'none' })
  const url = new URL(`smtp://127.0.0.1:${port}`)
  t.match(await send({ url, limitMs: 50 }), { outcome: 'failed', reason: /no answer within 0.05 s/ })
  const stop = new AbortController()
  const sending = send({ url, signal: stop.signal })
  stop.abort(new Error('stopped'))
  await t.rejects(sending, { message: 'stopped' })
  silent.on('connection', socket => socket.end('HTTP/1.1 400 Bad Request\r\n'))
  t.match(await send({ url }), { outcome: 'failed', reason: /not SMTP/ })
  silent.removeAllListeners('connection').on('connection', socket => {
    socket.on('error', () => {})
    const more = (): void => void (socket.writable && socket.write('250-and more\r\n'.repeat(1000), more))
    more()
  })
  t.match(await send({ url }), { outcome: 'failed', reason: /the answer is too long/ }, 'an answer without an end')
  await new Promise(resolve => silent.close(resolve))
  t.match(await send({ url }), { outcome: 'failed' })
})

t.test('each dot at the beginning of a line is doubled', async t => {
  t.equal(stuffed('.a\r\n..b\r\nc.d\r\n.'), '..a\r\n...b\r\nc.d\r\n..')
})
