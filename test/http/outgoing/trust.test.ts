import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import t from 'tap'
import { reasonOf } from '../../../lib/base/errors.js'
import { post } from '../../../lib/http/outgoing/post.js'
import { createTrust, readAuthorities } from '../../../lib/http/outgoing/trust.js'
import { makeCertificate, type Identity } from '../../support/certificates.js'
import { listen } from '../../support/on-loopback.js'

/** An authority, and a certificate for this machine. TLS looks authorities up by their names. */
function signedBy(name: string): { authority: Identity; server: Identity } {
  const authority = makeCertificate({ name, isAuthority: true })
  return { authority, server: makeCertificate({ issuer: authority }) }
}

async function serve({ key, cert }: Identity): Promise<URL> {
  const server = createServer({ key, cert }, (_, response) => void response.end('ok'))
  return new URL(`https://localhost:${await listen(t, server)}/`)
}

t.test('trusts the authorities of a file, and reads it again when it changes', async t => {
  const [one, two, extra] = [signedBy('one'), signedBy('two'), signedBy('extra')]
  const directory = t.testdir({ 'extra.pem': extra.authority.cert })
  const file = join(directory, 'ca.pem')
  let path = ''
  const trust = createTrust({ path: () => path, extraPath: join(directory, 'extra.pem') })
  const [first, second, third] = await Promise.all([serve(one.server), serve(two.server), serve(extra.server)])
  async function isTrusted(url: URL): Promise<boolean> {
    const options = { headers: {}, body: '', limitMs: 30_000, signal: new AbortController().signal }
    const posted = await post(url, { ...options, secureContext: trust() })
    if (posted.outcome === 'network') t.match(reasonOf(posted), /unknown authority .*outgoing_ca/)
    return posted.outcome === 'answered'
  }
  t.equal(trust(), undefined)
  path = file
  t.throws(trust, { message: `Cannot read the certificates in "${file}": no such file or directory` })
  writeFileSync(file, `a comment\n${one.authority.cert}`)
  t.same([await isTrusted(first), await isTrusted(second)], [true, false])
  if (process.version < 'v22.15') t.ok(await isTrusted(third), 'those of NODE_EXTRA_CA_CERTS stay')
  t.equal(trust(), trust(), 'an unchanged file is not read again')
  writeFileSync(`${file}.new`, two.authority.cert)
  renameSync(`${file}.new`, file)
  t.same([await isTrusted(first), await isTrusted(second)], [false, true])
})

t.test('says when the first certificate of the file expires', async t => {
  const at = (day: number): Date => new Date(Date.UTC(2040, 0, day))
  const file = join(t.testdir(), 'ca.pem')
  const certificates = [3, 2].map(day => makeCertificate({ isAuthority: true, to: at(day) }).cert)
  writeFileSync(file, certificates.join('\n'))
  const seen: number[] = []
  let path = file
  const trust = createTrust({ path: () => path, expiring: expiresAtMs => seen.push(expiresAtMs) })
  trust()
  trust()
  path = ''
  trust()
  t.strictSame(seen, [at(2).getTime(), at(2).getTime(), Infinity])
})

t.test('says why a file cannot be used', async t => {
  const directory = t.testdir({
    empty: 'no certificate',
    broken: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'
  })
  const file = join(directory, 'x')
  t.throws(() => readAuthorities(join(directory, 'empty')), { message: /contains no certificate in PEM format$/ })
  t.throws(() => readAuthorities(join(directory, 'broken')), { message: /contains a certificate that cannot be read$/ })
  mkdirSync(file)
  t.throws(() => readAuthorities(file), { message: /it is not a file$/ })
  rmSync(file, { recursive: true })
  writeFileSync(file, Buffer.alloc(1024 * 1024 + 1))
  t.throws(() => readAuthorities(file), { message: /it is larger than 1 MiB$/ })
})
