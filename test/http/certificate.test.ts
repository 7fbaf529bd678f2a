import t from 'tap'
import { execFileSync } from 'node:child_process'
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readCertificate } from '../../lib/http/certificate.js'
import { makeCertificate, makeSigned } from '../support/certificates.js'

const { authority, server } = makeSigned()
const other = makeCertificate()
const day = (offset: number) => new Date(Date.now() + offset * 24 * 60 * 60_000)
const dayOf = (date: Date) => date.toISOString().slice(0, 10)
const expired = makeCertificate({ from: day(-20), to: day(-10) })
const future = makeCertificate({ from: day(10), to: day(20) })
const encrypted = createPrivateKey(server.key).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' })
const weak = generateKeyPairSync('rsa', { modulusLength: 1024, privateKeyEncoding: { type: 'pkcs1', format: 'pem' }, publicKeyEncoding: { type: 'spki', format: 'pem' } })

async function read(t: { testdir(files: Record<string, Buffer | string>): string }, cert: string, key: string) {
  const directory = t.testdir({ 'cert.pem': Buffer.from(cert, 'latin1'), 'key.pem': key })
  chmodSync(join(directory, 'key.pem'), 0o600)
  return readCertificate({ cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }, Date.now())
}

t.test('a chain and its key: for which names, until when', async t => {
  const certificate = await read(t, server.cert + authority.cert, server.key)
  t.same(certificate.names, ['localhost', '127.0.0.1'])
  t.equal(certificate.expiresAt.slice(0, 10), dayOf(day(90)))
  t.same(certificate.warnings, [])
})

t.test('text around the certificates, and a key in the form of its algorithm, are taken', async t => {
  const sec1 = createPrivateKey(server.key).export({ type: 'sec1', format: 'pem' }) as string
  const certificate = await read(t, `subject=CN = localhost\n\n${server.cert}`, `-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n${sec1}`)
  t.equal(certificate.names[0], 'localhost')
})

t.test('what is refused, and how it is said', async t => {
  const der = new X509Certificate(server.cert).raw.toString('latin1')
  const cases: Array<[what: string, cert: string, key: string, sentence: RegExp, field: string]> = [
    ['another key', server.cert, other.key, /key\.pem" cannot be used: it is not the key of the certificate in ".*cert\.pem"$/, '--tls-key'],
    ['the chain upside down', authority.cert + server.cert, server.key, /the server's own certificate must come first/, '--tls-key'],
    ['files exchanged', server.key, server.cert, /cert\.pem" cannot be used: it holds a key and no certificate; were the files exchanged\?/, '--tls-cert'],
    ['a certificate for a key', server.cert, server.cert, /it holds a certificate and no key/, '--tls-key'],
    ['DER', der, server.key, /no certificate in PEM \("openssl x509 -inform der"/, '--tls-cert'],
    ['nothing', '', server.key, /it holds no certificate in PEM$/, '--tls-cert'],
    ['an empty key', server.cert, '', /it holds no private key in PEM$/, '--tls-key'],
    ['a damaged certificate', server.cert.replace(/MII|MIH|MIB/, 'AAA'), server.key, /its certificate 1 of 1 is damaged/, '--tls-cert'],
    ['a damaged intermediate', `${server.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`, server.key, /its certificate 2 of 2 is damaged/, '--tls-cert'],
    ['a damaged key', server.cert, server.key.replace(/\n.{20}/, '\nAAAAAAAAAAAAAAAAAAAA'), /key\.pem" cannot be used: it is damaged/, '--tls-key'],
    ['an encrypted key', server.cert, encrypted as string, /it is encrypted, and nobody is there to give the passphrase/, '--tls-key'],
    ['an expired one', expired.cert, expired.key, new RegExp(`it expired on ${dayOf(day(-10))} UTC; renew it`), '--tls-cert'],
    ['one of the future', future.cert, future.key, new RegExp(`it counts from ${dayOf(day(10))} UTC on only; is the clock`), '--tls-cert'],
    ['a key of another kind', server.cert, weak.privateKey, /it is not the key of the certificate/, '--tls-key']
  ]
  for (const [what, cert, key, message, field] of cases) {
    await t.test(what, async t => {
      await t.rejects(read(t, cert, key), { kind: 'invalid', code: 'invalid_certificate', message, field })
    })
  }
})

t.test('files that cannot be read', async t => {
  const directory = t.testdir({ 'cert.pem': server.cert, directory: {} })
  const cert = join(directory, 'cert.pem')
  await t.rejects(readCertificate({ cert: join(directory, 'none.pem'), key: cert }, 0), { message: /none\.pem" cannot be used: there is no such file/ })
  await t.rejects(readCertificate({ cert, key: join(directory, 'none.pem') }, 0), { field: '--tls-key', message: /there is no such file/ })
  await t.rejects(readCertificate({ cert: join(directory, 'directory'), key: cert }, 0), { message: /it is a directory/ })
})

t.test('what is warned about: a key that others can read, a chain that leads nowhere', async t => {
  const directory = t.testdir({ 'cert.pem': server.cert + other.cert, 'key.pem': server.key })
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  chmodSync(files.key, 0o644)
  const { warnings } = await readCertificate(files, Date.now())
  t.equal(warnings.length, 2)
  t.match(warnings[0], /key\.pem" can be read by others than its owner: chmod 600/)
  t.match(warnings[1], /cert\.pem" is broken: certificate 1 is not signed by the one after it/)
})

t.test('what openssl makes is taken', async t => {
  const directory = t.testdir({})
  const files = { cert: join(directory, 'cert.pem'), key: join(directory, 'key.pem') }
  const words = 'req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=deploy.example.org'.split(' ')
  execFileSync('openssl', [...words, '-keyout', files.key, '-out', files.cert], { stdio: 'ignore' })
  t.same((await readCertificate(files, Date.now())).names, ['deploy.example.org'], 'without alternative names: the common one')
  writeFileSync(files.cert, Buffer.concat([Buffer.from('\ufeff'), Buffer.from(execFileSync('openssl', ['x509', '-in', files.cert, '-text']))]))
  t.same((await readCertificate(files, Date.now())).names, ['deploy.example.org'])
})
