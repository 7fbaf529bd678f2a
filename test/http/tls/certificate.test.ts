import t from 'tap'
import { execFileSync } from 'node:child_process'
import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Clock, systemClock } from '../../../lib/base/clock.js'
import {
  type Certificate,
  type CertificateFiles,
  openRenewal,
  readCertificate
} from '../../../lib/http/tls/certificate.js'
import { type Identity, makeCertificate, makeSigned } from '../../support/certificates.js'
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
