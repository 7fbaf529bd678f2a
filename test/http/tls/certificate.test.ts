import t from 'tap'
import type { Test } from 'tap'
import { execFileSync } from 'node:child_process'
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { once } from 'node:events'
import { get, type IncomingMessage, request as httpRequest } from 'node:http'
import { Agent, request, type RequestOptions } from 'node:https'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { type Clock, systemClock } from '../../../lib/base/clock.js'
import {
  type Certificate,
  type CertificateFiles,
  createSecureServer,
  openRenewal,
  readCertificate
} from '../../../lib/http/tls/certificate.js'
import { type Identity, makeCertificate, makeSigned } from '../../support/certificates.js'
import { serverSays } from '../../support/sentences/server.js'
import { webSocket } from '../../../lib/http/websocket/socket.js'
import { json, type Route, streamedBody } from '../../../lib/http/core/route.js'
import type { ServerOptions } from '../../../lib/http/core/server.js'
import { readRaw, sendRaw, startServer } from '../../support/http-server.js'
import { until } from '../../support/until.js'

const { authority, server } = makeSigned()
const other = makeCertificate()
const day = (offset: number) => new Date(Date.now() + offset * 24 * 60 * 60_000)
const dayOf = (date: Date) => date.toISOString().slice(0, 10)
const expired = makeCertificate({ from: day(-20), to: day(-10) })
const future = makeCertificate({ from: day(10), to: day(20) })
const encrypted = createPrivateKey(server.key).export({
  type: 'pkcs8',
  format: 'pem',
  cipher: 'aes-256-cbc',
  passphrase: 'secret'
})
const weak = generateKeyPairSync('rsa', {
  modulusLength: 1024,
  privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' }
})

async function read(t: { testdir(files: Record<string, Buffer | string>): string }, cert: string, key: string) {
  const directory = t.testdir({ 'cert.pem': Buffer.from(cert, 'latin1'), 'key.pem': key })
  chmodSync(join(directory, 'key.pem'), 0o600)
  return readCertificate({ cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }, Date.now())
}

t.test('reads the names and the expiry of a chain and its key', async t => {
  const certificate = await read(t, server.cert + authority.cert, server.key)
  t.same(certificate.names, ['localhost', '127.0.0.1'])
  t.equal(certificate.expiresAt.slice(0, 10), dayOf(day(90)))
  t.same(certificate.warnings, [])
})

t.test('accepts text around the certificates, and a key in the form of its algorithm', async t => {
  const sec1 = createPrivateKey(server.key).export({ type: 'sec1', format: 'pem' }) as string
  const certificate = await read(
    t,
    `subject=CN = localhost\n\n${server.cert}`,
    `-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n${sec1}`
  )
  t.equal(certificate.names[0], 'localhost')
})

t.test('refuses certificates and keys that cannot be used', async t => {
  const der = new X509Certificate(server.cert).raw.toString('latin1')
  const cases: Array<[what: string, cert: string, key: string, sentence: RegExp, field: string]> = [
    [
      'another key',
      server.cert,
      other.key,
      /Cannot use the key ".*key\.pem": it is not the key of the certificate in ".*cert\.pem"$/,
      '--tls-key'
    ],
    [
      'the chain in reverse order',
      authority.cert + server.cert,
      server.key,
      /the server's own certificate must come first/,
      '--tls-key'
    ],
    [
      'files exchanged',
      server.key,
      server.cert,
      /Cannot use the certificate ".*cert\.pem": it contains a key, not a certificate\. Check that/,
      '--tls-cert'
    ],
    ['a certificate for a key', server.cert, server.cert, /it contains a certificate, not a key/, '--tls-key'],
    ['DER', der, server.key, /no certificate in PEM format\. Convert it with "openssl x509 -inform der"/, '--tls-cert'],
    ['nothing', '', server.key, new RegExp(`${serverSays.noCertificate}$`), '--tls-cert'],
    ['an empty key', server.cert, '', /it contains no private key in PEM format$/, '--tls-key'],
    [
      'a damaged certificate',
      server.cert.replace(/MII|MIH|MIB/, 'AAA'),
      server.key,
      /its certificate 1 of 1 is damaged/,
      '--tls-cert'
    ],
    [
      'a damaged intermediate',
      `${server.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`,
      server.key,
      /its certificate 2 of 2 is damaged/,
      '--tls-cert'
    ],
    [
      'a damaged key',
      server.cert,
      server.key.replace(/\n.{20}/, '\nAAAAAAAAAAAAAAAAAAAA'),
      /Cannot use the key ".*key\.pem": it is damaged/,
      '--tls-key'
    ],
    [
      'an encrypted key',
      server.cert,
      encrypted as string,
      /it is encrypted, and svc cannot ask for the passphrase/,
      '--tls-key'
    ],
    [
      'an expired certificate',
      expired.cert,
      expired.key,
      new RegExp(`it expired on ${dayOf(day(-10))} UTC\\. Renew it`),
      '--tls-cert'
    ],
    [
      'a certificate that is not valid yet',
      future.cert,
      future.key,
      new RegExp(`it is not valid before ${dayOf(day(10))} UTC\\. Check the clock`),
      '--tls-cert'
    ],
    ['a key of another kind', server.cert, weak.privateKey, /it is not the key of the certificate/, '--tls-key']
  ]
  for (const [what, cert, key, message, field] of cases) {
    await t.test(what, async t => {
      await t.rejects(read(t, cert, key), { kind: 'invalid', code: 'invalid_certificate', message, field })
    })
  }
})

t.test('refuses files that cannot be read', async t => {
  const directory = t.testdir({ 'cert.pem': server.cert, directory: {} })
  const cert = join(directory, 'cert.pem')
  await t.rejects(readCertificate({ cert: join(directory, 'none.pem'), key: cert }, 0), {
    message: /Cannot use the certificate ".*none\.pem": no such file or directory/
  })
  await t.rejects(readCertificate({ cert, key: join(directory, 'none.pem') }, 0), {
    field: '--tls-key',
    message: /no such file or directory/
  })
  await t.rejects(readCertificate({ cert: join(directory, 'directory'), key: cert }, 0), {
    message: /: is a directory/
  })
})

t.test('warns of a key that others can read, and of a broken chain', async t => {
  const directory = t.testdir({ 'cert.pem': server.cert + other.cert, 'key.pem': server.key })
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  chmodSync(files.key, 0o644)
  const { warnings } = await readCertificate(files, Date.now())
  t.equal(warnings.length, 2)
  t.match(warnings[0], /Other users can read the key ".*key\.pem"\. Run "chmod 600"/)
  t.match(warnings[1], /cert\.pem" is broken: certificate 1 is not signed by the one after it/)
})

t.test('accepts what openssl creates', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  const words = 'req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=deploy.example.org'.split(' ')
  execFileSync('openssl', [...words, '-keyout', files.key, '-out', files.cert], { stdio: 'ignore' })
  t.same(
    (await readCertificate(files, Date.now())).names,
    ['deploy.example.org'],
    'without alternative names, the common name'
  )
  writeFileSync(
    files.cert,
    Buffer.concat([Buffer.from('\ufeff'), Buffer.from(execFileSync('openssl', ['x509', '-in', files.cert, '-text']))])
  )
  t.same((await readCertificate(files, Date.now())).names, ['deploy.example.org'])
})

const first = makeCertificate({ names: ['first.test'] })
const second = makeCertificate({ names: ['second.test'] })

function write({ cert, key }: CertificateFiles, identity: Identity): void {
  writeFileSync(cert, identity.cert)
  writeFileSync(key, identity.key, { mode: 0o600 })
}

/** Opens connections until one finds what `isReached` waits for. */
async function open(files: CertificateFiles, clock: Clock = systemClock) {
  const told = { names: [] as string[], expired: [] as string[], broken: [] as string[] }
  const renewal = await openRenewal({
    files,
    clock,
    onRenewed: ({ names }) => void told.names.push(...names),
    onLook: ({ names, expiresAt }) => {
      if (clock.now() > Date.parse(expiresAt)) told.expired = [...names]
    },
    onBroken: error => void told.broken.push((error as Error).message)
  })
  const shown: Certificate[] = [renewal.certificate]
  return {
    told,
    look: () => renewal.renewed(),
    shown: () => shown.at(-1)?.names[0],
    async until(isReached: () => boolean): Promise<void> {
      while (!isReached()) {
        const next = await renewal.renewed()
        if (next !== null) shown.push(next)
        else await sleep(20)
      }
    }
  }
}

t.test('detects rewritten files', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  write(files, first)
  const stage = await open(files)
  t.equal(stage.shown(), 'first.test')
  write(files, second)
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told, { names: ['second.test'], expired: [], broken: [] })
})

t.test('detects a renewal by certbot: links in live point to other files in archive', async t => {
  const directory = t.testdir({})
  const live = { cert: join(directory, 'live/fullchain.pem'), key: join(directory, 'live/privkey.pem') }
  const archive = (n: number) => ({
    cert: join(directory, `archive/fullchain${n}.pem`),
    key: join(directory, `archive/privkey${n}.pem`)
  })
  for (const name of ['live', 'archive']) mkdirSync(join(directory, name))
  write(archive(1), first)
  for (const file of ['cert', 'key'] as const) symlinkSync(archive(1)[file], live[file])
  const stage = await open(live)
  write(archive(2), second)
  for (const file of ['cert', 'key'] as const) {
    unlinkSync(live[file])
    symlinkSync(archive(2)[file], live[file])
  }
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told.broken, [])
})

t.test('detects a renewal by Kubernetes: ..data points to another directory', async t => {
  const directory = t.testdir({})
  const at = (time: string) => ({ cert: join(directory, time, 'tls.crt'), key: join(directory, time, 'tls.key') })
  for (const [time, identity] of [
    ['..2026_01', first],
    ['..2026_02', second]
  ] as const) {
    mkdirSync(join(directory, time))
    write(at(time), identity)
  }
  symlinkSync('..2026_01', join(directory, '..data'))
  for (const name of ['tls.crt', 'tls.key']) symlinkSync(join('..data', name), join(directory, name))
  const stage = await open({ cert: join(directory, 'tls.crt'), key: join(directory, 'tls.key') })
  symlinkSync('..2026_02', join(directory, '..data_tmp'))
  renameSync(join(directory, '..data_tmp'), join(directory, '..data'))
  rmSync(join(directory, '..2026_01'), { recursive: true })
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told.broken, [])
})

t.test(
  'keeps the old certificate if the new file cannot be used, complains once, and then accepts a usable one',
  async t => {
    const directory = t.testdir({})
    const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
    write(files, first)
    const stage = await open(files)
    writeFileSync(files.cert, readFileSync(files.cert, 'utf8').slice(0, 100))
    await stage.until(() => stage.told.broken.length > 0)
    t.match(stage.told.broken[0], new RegExp(`Cannot use the certificate ".*cert\\.pem": ${serverSays.noCertificate}`))
    t.equal(stage.shown(), 'first.test')
    rmSync(files.cert)
    await stage.until(() => stage.told.broken.length > 1)
    t.match(stage.told.broken[1], /no such file or directory/)
    write(files, second)
    await stage.until(() => stage.shown() === 'second.test')
    t.equal(stage.told.broken.length, 2, 'each once')
  }
)

t.test('does not complain if a certificate arrives a moment before its key', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  write(files, first)
  const stage = await open(files)
  writeFileSync(files.cert, second.cert)
  t.equal(await stage.look(), null)
  writeFileSync(files.key, second.key)
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told.broken, [])
})

t.test('complains once about a certificate that expires while it is in use', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  const day = 24 * 60 * 60_000
  write(files, makeCertificate({ names: ['short.test'], to: new Date(Date.now() + day) }))
  let later = 0
  const stage = await open(files, { now: () => Date.now() + later })
  later = 2 * day
  await stage.until(() => stage.told.expired.length > 0)
  write(files, second)
  await stage.until(() => stage.shown() === 'second.test')
  t.same(stage.told, { names: ['second.test'], expired: ['short.test'], broken: [] })
})

t.test('refuses an unusable certificate at the start', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  await t.rejects(open(files), { code: 'invalid_certificate' })
})

const { authority: tlsAuthority, server: identity } = makeSigned()

const routes: Route[] = [
  { method: 'GET', path: '/api/whoami', auth: 'public', handle: ({ client }) => json(client) },
  {
    method: 'POST',
    path: '/api/count',
    auth: 'public',
    body: streamedBody,
    handle: async ({ body }) => {
      let bytes = 0
      for await (const chunk of body) bytes += (chunk as Buffer).length
      return json({ bytes })
    }
  },
  {
    method: 'GET',
    path: '/api/ticks',
    auth: 'public',
    handle: () => ({
      kind: 'stream',
      status: 200,
      headers: { 'content-type': 'text/plain' },
      lasting: true,
      async run(sink) {
        await sink.write('tick\n')
        await new Promise(resolve => sink.signal.addEventListener('abort', resolve))
      }
    })
  },
  {
    method: 'GET',
    path: '/api/slow',
    auth: 'public',
    handle: async () => {
      await sleep(300)
      return json({ slow: true })
    }
  },
  {
    method: 'GET',
    path: '/api/echo',
    auth: 'public',
    handle: () =>
      webSocket({
        async run(connection) {
          for await (const message of connection.messages()) await connection.send(message as string)
        }
      })
  }
]

async function startSecure(t: Test, options: Partial<ServerOptions<string, unknown>> = {}) {
  const directory = t.testdir({ 'cert.pem': identity.cert + tlsAuthority.cert, 'key.pem': identity.key })
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  const renewal = await openRenewal({ files, clock: systemClock, onRenewed() {}, onLook() {}, onBroken() {} })
  const secure: ServerOptions<string, unknown>['secure'] = options => createSecureServer(options, renewal)
  const started = await startServer(t, routes, { ...options, secure: secure as NonNullable<typeof secure> })
  return { ...started, files }
}

/** Sends a request as a client that trusts this authority. */
async function ask(
  port: number,
  path: string,
  options: RequestOptions = {},
  body?: Buffer
): Promise<{ status: number; body: any; reply: IncomingMessage }> {
  const sending = request({ host: '127.0.0.1', port, path, ca: tlsAuthority.cert, agent: false, ...options })
  sending.end(body)
  const [reply] = (await once(sending, 'response')) as [IncomingMessage]
  return { status: reply.statusCode as number, body: JSON.parse(await text(reply)), reply }
}

async function shake(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connectTls({ host: '127.0.0.1', port, ca: tlsAuthority.cert, ...options })
  await once(socket, 'secureConnect')
  return socket
}

t.test('serves requests and uploads, and knows the address of the client', async t => {
  const { port } = await startSecure(t)
  t.match(await ask(port, '/api/whoami', { localAddress: '127.0.0.7' }), {
    status: 200,
    body: { address: '127.0.0.7', local: false }
  })
  const bytes = 20 * 1024 * 1024
  t.match(await ask(port, '/api/count', { method: 'POST', headers: { expect: '100-continue' } }, Buffer.alloc(bytes)), {
    body: { bytes }
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: tlsAuthority.cert })
  t.teardown(() => agent.destroy())
  const first = await ask(port, '/api/whoami', { agent })
  const second = await ask(port, '/api/whoami', { agent })
  t.equal(first.reply.socket, second.reply.socket, 'the connection is reused')
})

t.test('accepts TLS 1.2 and 1.3 and HTTP/1.1, but nothing older', async t => {
  const { port } = await startSecure(t)
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const socket = await shake(port, { minVersion: version, maxVersion: version, ALPNProtocols: ['h2', 'http/1.1'] })
    t.equal(socket.getProtocol(), version)
    t.equal(socket.alpnProtocol, 'http/1.1')
    socket.destroy()
  }
  await t.rejects(shake(port, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }), {
    code: /ERR_SSL/
  })
  t.equal((await ask(port, '/api/whoami')).status, 200, 'failed clients do not affect others')
})

t.test('tells a client of plain HTTP to use https', async t => {
  const { port } = await startSecure(t)
  const reply = await sendRaw(port, 'GET /api/whoami HTTP/1.1\r\nhost: localhost\r\n\r\n')
  t.equal(reply.status, 400)
  t.match(JSON.parse(reply.body), {
    success: false,
    code: 'invalid_request',
    error: new RegExp(serverSays.expectsTls)
  })
  const byByte = connect({ port, host: '127.0.0.1' })
  const answered = readRaw(byByte)
  for (const letter of 'POST / HTTP/1.1\r\n') {
    byByte.write(letter)
    await sleep(1)
  }
  t.equal((await answered).status, 400)
  const posting = httpRequest({ host: '127.0.0.1', port, method: 'POST', path: '/api/count' })
  posting.on('error', () => {})
  posting.end(Buffer.alloc(1024 * 1024))
  const [refused] = (await once(posting, 'response')) as [IncomingMessage]
  t.equal(refused.statusCode, 400, 'answered before a body that is not read')
  refused.resume()
  t.equal((await sendRaw(port, Buffer.from([0, 1, 2, 3, 4, 5]))).status, 0, 'anything else is disconnected')
  t.equal((await ask(port, '/api/whoami')).status, 200)
})

t.test('disconnects a client that sends nothing, or half a handshake', async t => {
  const { port } = await startSecure(t, { limits: { headersMs: 200 } })
  t.equal((await readRaw(connect({ port, host: '127.0.0.1' }))).head, '')
  t.equal((await sendRaw(port, Buffer.from([22, 3, 1, 2, 0, 1, 0]))).status, 0)
  const late = await shake(port)
  t.match(await readRaw(late), { status: 408 }, 'also a connection without a request')
  const half = await shake(port)
  half.write('GET / HTTP/1.1\r\n')
  t.match(await readRaw(half), { status: 408 })
})

t.test('answers invalid requests as on a plain connection', async t => {
  const { port } = await startSecure(t)
  const socket = await shake(port)
  socket.write('what is this\r\n\r\n')
  t.match(await readRaw(socket), { status: 400, body: /it is not valid HTTP\/1\.1/ })
  const large = await shake(port)
  large.write(`GET / HTTP/1.1\r\nhost: x\r\nx: ${'a'.repeat(20_000)}\r\n\r\n`)
  t.match(await readRaw(large), { status: 431 })
})

t.test('serves a WebSocket, and ignores a request for h2c', async t => {
  const { port } = await startSecure(t)
  const socket = await shake(port)
  const handshake = [
    'GET /api/echo HTTP/1.1',
    `host: localhost:${port}`,
    `origin: https://localhost:${port}`,
    'connection: upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=='
  ]
  socket.write(`${handshake.join('\r\n')}\r\n\r\n`)
  const [head] = (await once(socket, 'data')) as [Buffer]
  t.match(head.toString(), /^HTTP\/1\.1 101 /)
  socket.write(Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x68, 0x69]))
  const [frame] = (await once(socket, 'data')) as [Buffer]
  t.same([...frame], [0x81, 2, 0x68, 0x69])
  socket.destroy()
  const wish = await ask(port, '/api/whoami', {
    headers: { connection: 'upgrade, http2-settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' }
  })
  t.equal(wish.status, 200)
})

t.test('ends idle, lasting and early connections when it stops, and lets a reply finish', async t => {
  const { server, port } = await startSecure(t)
  const silent = connect({ port, host: '127.0.0.1' })
  const greeting = connect({ port, host: '127.0.0.1' }, () => greeting.write(Buffer.from([22, 3, 1, 2, 0, 1, 0])))
  const idle = await shake(port)
  const gone: Array<Promise<unknown>> = [silent, greeting, idle].map(readRaw)
  const streaming = request({ host: '127.0.0.1', port, path: '/api/ticks', ca: tlsAuthority.cert, agent: false }).end()
  const [stream] = (await once(streaming, 'response')) as [IncomingMessage]
  await once(stream, 'data')
  gone.push(new Promise(resolve => stream.on('error', () => {}).on('close', resolve)))
  const slow = ask(port, '/api/slow')
  await sleep(100)
  const closed = server.close({ graceMs: 5000 })
  t.match(await slow, { status: 200, body: { slow: true } })
  await Promise.all([closed, ...gone])
  t.match(await new Promise(resolve => get({ host: '127.0.0.1', port }).on('error', resolve)), { code: 'ECONNREFUSED' })
})

t.test('shows a renewed certificate to the next clients, and keeps existing connections', async t => {
  const { port, files } = await startSecure(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: tlsAuthority.cert })
  t.teardown(() => agent.destroy())
  const before = (await ask(port, '/api/whoami', { agent })).reply.socket
  const next = makeSigned()
  writeFileSync(files.cert, next.server.cert)
  writeFileSync(files.key, next.server.key)
  await until(() =>
    ask(port, '/api/whoami', { ca: next.authority.cert }).then(
      () => true,
      () => false
    )
  )
  t.equal((await ask(port, '/api/whoami', { agent })).reply.socket, before)
})
