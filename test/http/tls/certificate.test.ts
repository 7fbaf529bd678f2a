import t from 'tap'
import { execFileSync } from 'node:child_process'
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readCertificate } from '../../../lib/http/tls/certificate.js'
import { makeCertificate, makeSigned } from '../../support/certificates.js'
import { serverSays } from '../../support/sentences/server.js'

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
