/*
 * Sends one mail over SMTP (RFC 5321): with TLS from the start (RFC 8314) or after STARTTLS (RFC 3207), and AUTH PLAIN or LOGIN
 * (RFC 4954). A password is never sent in plain text, except to this machine. One connection, one mail.
 */
import { connect, isIP, type Socket } from 'node:net'
import { hostname } from 'node:os'
import { connect as connectTls, type SecureContext } from 'node:tls'
import { reasonOf } from '../../base/errors.js'
import { createLookup } from './post.js'

export interface Mail {
  /** `smtps://[user@]host[:465]` or `smtp://[user@]host[:587]`. */
  url: URL
  /** Empty: nobody signs in. */
  password: string
  from: string
  to: readonly string[]
  /** Header and body, with CRLF, in ASCII. */
  message: string
  limitMs: number
  /** The authorities to trust. Default: those of Node. */
  secureContext?: SecureContext | undefined
  signal: AbortSignal
}

/** The result: `refused` is final, `failed` may succeed later. `reason` is a clause. */
export type Mailed = { outcome: 'sent' } | { outcome: 'refused' | 'failed'; reason: string }

interface Answer {
  code: number
  lines: string[]
}

/** An answer that ends the attempt. */
class Refused extends Error {
  constructor(
    readonly isFinal: boolean,
    message: string
  ) {
    super(message)
  }
}

const maxAnswerBytes = 64 * 1024

/** Sends a mail. Rejects only with the reason of the signal. */
export async function sendMail(mail: Mail): Promise<Mailed> {
  const { limitMs, signal } = mail
  signal.throwIfAborted()
  const { lookup, cancel } = createLookup()
  const line = new Line()
  const abort = (): void => line.fail(signal.reason as Error)
  const limit = setTimeout(() => line.fail(new Error(`no answer within ${limitMs / 1000} s`)), limitMs)
  signal.addEventListener('abort', abort, { once: true })
  try {
    await talk(line, mail, lookup)
    return { outcome: 'sent' }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof Refused) return { outcome: error.isFinal ? 'refused' : 'failed', reason: error.message }
    return { outcome: 'failed', reason: `the connection failed: ${reasonOf(error)}` }
  } finally {
    clearTimeout(limit)
    signal.removeEventListener('abort', abort)
    cancel()
    line.end()
  }
}

async function talk(line: Line, mail: Mail, lookup: ReturnType<typeof createLookup>['lookup']): Promise<void> {
  const { url, password, from, to, message, secureContext } = mail
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const tls = { host, ...(isIP(host) === 0 && { servername: host }), ...(secureContext && { secureContext }) }
  const isImplicit = url.protocol === 'smtps:'
  const port = url.port === '' ? (isImplicit ? 465 : 587) : Number(url.port)
  await line.open(isImplicit ? connectTls({ port, lookup, ...tls }) : connect({ host, port, lookup }), isImplicit)
  expect(await line.answer(), 220)
  let offers = await greet(line)
  let isSecure = isImplicit
  if (!isSecure && offers.has('STARTTLS')) {
    expect(await line.ask('STARTTLS'), 220)
    await line.secure(tls)
    offers = await greet(line)
    isSecure = true
  }
  if (password !== '') {
    if (!isSecure && !line.isLoopback())
      throw new Refused(true, 'the mail server offers no STARTTLS, and a password is not sent in plain text')
    await authenticate(line, offers.get('AUTH') ?? '', { user: decodeURIComponent(url.username), password })
  }
  expect(await line.ask(`MAIL FROM:<${from}>`), 250)
  for (const each of to) expect(await line.ask(`RCPT TO:<${each}>`), 250, 251)
  expect(await line.ask('DATA'), 354)
  expect(await line.ask(`${stuffed(message)}\r\n.`), 250)
  line.say('QUIT')
}

/** Doubles the dots at the beginnings of lines (RFC 5321 §4.5.2). */
export function stuffed(message: string): string {
  return message.replace(/^\./gm, '..')
}

/** Says who this is, and returns what the server offers, by its first word in capitals. */
async function greet(line: Line): Promise<Map<string, string>> {
  const name = /^[\w.-]+$/.test(hostname()) ? hostname() : 'localhost'
  const { code, lines } = await line.ask(`EHLO ${name}`)
  if (code !== 250) {
    expect(await line.ask(`HELO ${name}`), 250)
    return new Map()
  }
  return new Map(
    lines.slice(1).map(text => {
      const [word = '', ...rest] = text.trim().split(/[\s=]+/)
      return [word.toUpperCase(), rest.join(' ').toUpperCase()]
    })
  )
}

async function authenticate(
  line: Line,
  methods: string,
  { user, password }: { user: string; password: string }
): Promise<void> {
  const encoded = (text: string): string => Buffer.from(text, 'utf8').toString('base64')
  const offered = methods.split(' ')
  if (offered.includes('PLAIN')) {
    return expect(await line.ask(`AUTH PLAIN ${encoded(`\0${user}\0${password}`)}`), 235)
  }
  if (!offered.includes('LOGIN')) throw new Refused(true, 'the mail server offers neither AUTH PLAIN nor AUTH LOGIN')
  expect(await line.ask('AUTH LOGIN'), 334)
  expect(await line.ask(encoded(user)), 334)
  expect(await line.ask(encoded(password)), 235)
}

/** Throws unless an answer has one of these codes. 5yz is final (RFC 5321 §4.2.1). */
function expect({ code, lines }: Answer, ...codes: number[]): void {
  if (codes.includes(code)) return
  const said = lines
    .join(' ')
    .replace(/[^\x20-\x7e]/g, '?')
    .slice(0, 300)
  throw new Refused(code >= 500, `the mail server answered ${code}${said === '' ? '' : `: ${said}`}`)
}

/** A connection to which lines are written, and whose answers are read. */
class Line {
  #socket: Socket | null = null
  #text = ''
  /** Bytes of the answer that is being read. */
  #bytes = 0
  #answers: Answer[] = []
  #lines: string[] = []
  #failure: Error | null = null
  #wake: (() => void) | null = null

  /** Takes a socket that begins to connect. Resolves when it is connected, and its certificate is checked. */
  async open(socket: Socket, isSecure: boolean): Promise<void> {
    this.#take(socket)
    await this.#until(socket, isSecure ? 'secureConnect' : 'connect')
  }

  /** Goes on with TLS. What came in plain text before is forgotten. */
  async secure(options: { host: string; servername?: string; secureContext?: SecureContext }): Promise<void> {
    const plain = this.#socket as Socket
    plain.removeAllListeners('data')
    this.#text = ''
    this.#answers = []
    this.#lines = []
    const socket = connectTls({ socket: plain, ...options })
    this.#take(socket)
    await this.#until(socket, 'secureConnect')
  }

  isLoopback(): boolean {
    const address = this.#socket?.remoteAddress ?? ''
    return address === '::1' || /^(::ffff:)?127\./.test(address)
  }

  say(text: string): void {
    this.#socket?.write(`${text}\r\n`)
  }

  ask(text: string): Promise<Answer> {
    this.say(text)
    return this.answer()
  }

  async answer(): Promise<Answer> {
    for (;;) {
      const found = this.#answers.shift()
      if (found !== undefined) return found
      if (this.#failure !== null) throw this.#failure
      await new Promise<void>(resolve => (this.#wake = resolve))
    }
  }

  fail(error: Error): void {
    this.#failure ??= error
    this.#wake?.()
    this.#socket?.destroy(error)
  }

  end(): void {
    this.#socket?.end()
    this.#socket?.on('error', () => {})
    setTimeout(() => this.#socket?.destroy(), 1000).unref()
  }

  async #until(socket: Socket, event: 'connect' | 'secureConnect'): Promise<void> {
    if (this.#failure !== null) throw this.#failure
    await new Promise<void>((resolve, reject) => {
      socket.once(event, resolve)
      socket.once('error', reject)
      socket.once('close', () => reject(this.#failure ?? new Error('the connection was closed')))
    })
  }

  #take(socket: Socket): void {
    this.#socket = socket
    socket.on('error', error => this.fail(error))
    socket.on('close', () => this.fail(new Error('the connection was closed')))
    socket.on('data', (bytes: Buffer) => this.#read(bytes.toString('latin1')))
  }

  #read(text: string): void {
    this.#text += text
    this.#bytes += text.length
    if (this.#bytes > maxAnswerBytes) return this.fail(new Error('the answer is too long'))
    for (let end = this.#text.indexOf('\n'); end !== -1; end = this.#text.indexOf('\n')) {
      const line = this.#text.slice(0, end).replace(/\r$/, '')
      this.#text = this.#text.slice(end + 1)
      const [, code, sign, words = ''] = /^(\d{3})([ -]?)(.*)$/.exec(line) ?? []
      if (code === undefined) return this.fail(new Error('the answer is not SMTP'))
      this.#lines.push(words)
      if (sign === '-') continue
      this.#bytes = this.#text.length
      this.#answers.push({ code: Number(code), lines: this.#lines })
      this.#lines = []
      this.#wake?.()
    }
  }
}
