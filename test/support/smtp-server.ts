import { createServer as createPlain, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createServer as createSecure, TLSSocket } from 'node:tls'
import type { Identity } from './certificates.js'

/** What a mail server does. */
export interface SmtpOptions {
  /** Its certificate. */
  identity: Identity
  /** `implicit`: TLS from the start. `starttls`: offered. `none`: plain text only. */
  tls: 'implicit' | 'starttls' | 'none'
  /** The methods of AUTH that it offers. */
  auth?: 'PLAIN' | 'LOGIN'
  /** Answers in place of its own, by the first word of a command. */
  answers?: Record<string, string>
}

/** A mail that arrived, with dots as they were sent. */
export interface ReceivedMail {
  from: string
  to: string[]
  lines: string[]
  isSecure: boolean
  user: string | null
  password: string | null
}

/** Starts a small mail server on loopback, closed after the test. */
export async function startSmtp(t: { teardown(work: () => unknown): void }, options: SmtpOptions) {
  const { identity, tls, auth, answers = {} } = options
  const mails: ReceivedMail[] = []
  const said: string[] = []
  const sockets = new Set<Socket>()

  function serve(socket: Socket, isSecure: boolean, isGreeting: boolean): void {
    let mail: ReceivedMail = { from: '', to: [], lines: [], isSecure, user: null, password: null }
    let state: 'command' | 'data' | 'user' | 'password' = 'command'
    let rest = ''
    const reply = (text: string): void => void socket.write(`${text}\r\n`)
    const decoded = (text: string): string => Buffer.from(text, 'base64').toString('utf8')
    sockets.add(socket)
    socket.on('error', () => {})
    if (isGreeting) reply('220 mail.example.org ESMTP')
    const onLine = (line: string): void => {
      if (state === 'data') {
        if (line !== '.') return void mail.lines.push(line.startsWith('.') ? line.slice(1) : line)
        state = 'command'
        const own = answers['.']
        if (own === undefined) mails.push(mail)
        return reply(own ?? '250 queued')
      }
      if (state === 'user') {
        mail.user = decoded(line)
        state = 'password'
        return reply('334 UGFzc3dvcmQ6')
      }
      if (state === 'password') {
        mail.password = decoded(line)
        state = 'command'
        return reply('235 welcome')
      }
      const [word = '', ...more] = line.split(' ')
      said.push(line)
      const own = answers[word]
      if (own !== undefined) return reply(own)
      if (word === 'EHLO') {
        const offers = [
          'mail.example.org',
          '8BITMIME',
          ...(tls === 'starttls' && !isSecure ? ['STARTTLS'] : []),
          ...(auth ? [`AUTH ${auth}`] : [])
        ]
        return reply(offers.map((offer, index) => `250${index === offers.length - 1 ? ' ' : '-'}${offer}`).join('\r\n'))
      }
      if (word === 'STARTTLS') {
        reply('220 go ahead')
        socket.removeListener('data', onData)
        return serve(new TLSSocket(socket, { isServer: true, cert: identity.cert, key: identity.key }), true, false)
      }
      if (line.startsWith('AUTH PLAIN ')) {
        const [, user = '', password = ''] = decoded(more[1] as string).split('\0')
        Object.assign(mail, { user, password })
        return reply('235 welcome')
      }
      if (line === 'AUTH LOGIN') {
        state = 'user'
        return reply('334 VXNlcm5hbWU6')
      }
      if (word === 'MAIL') mail = { ...mail, from: /<(.*)>/.exec(line)?.[1] ?? '' }
      if (word === 'RCPT') mail.to.push(/<(.*)>/.exec(line)?.[1] ?? '')
      if (word === 'DATA') {
        state = 'data'
        return reply('354 go on')
      }
      if (word === 'QUIT') {
        reply('221 bye')
        return void socket.end()
      }
      reply('250 ok')
    }
    const onData = (bytes: Buffer): void => {
      rest += bytes.toString('utf8')
      for (let end = rest.indexOf('\r\n'); end !== -1; end = rest.indexOf('\r\n')) {
        const line = rest.slice(0, end)
        rest = rest.slice(end + 2)
        onLine(line)
      }
    }
    socket.on('data', onData)
  }

  const server =
    tls === 'implicit'
      ? createSecure({ cert: identity.cert, key: identity.key }, socket => serve(socket, true, true))
      : createPlain(socket => serve(socket, false, true))
  server.on('tlsClientError', () => {})
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise(resolve => server.close(resolve))
  })
  return { port: (server.address() as AddressInfo).port, mails, said }
}
