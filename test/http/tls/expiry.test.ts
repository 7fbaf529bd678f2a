import t from 'tap'
import { createExpiryWarnings, expiryOfPem, rereadCa } from '../../../lib/http/tls/expiry.js'
import { makeCertificate, makeSigned } from '../../support/certificates.js'

const day = 86_400_000

t.test('warns 14 days before a certificate expires, and when it has expired, once each', async t => {
  const told: string[] = []
  let now = Date.parse('2026-01-01T00:00:00Z')
  const expiry = createExpiryWarnings(line => void told.push(line), { now: () => now })
  const look = (expiresAtMs: number) => expiry.look({ name: 'The certificate "a"', expiresAtMs, cure: 'Renew it' })
  const end = now + 30 * day
  look(end)
  look(Infinity)
  t.strictSame(told, [])
  t.strictSame(expiry.list(), [])
  look(end)
  now += 17 * day
  for (let n = 0; n < 3; n++) look(end)
  t.strictSame(told, ['The certificate "a" expires on 2026-01-31. Renew it'])
  const listed = { name: 'The certificate "a"', expiresAt: '2026-01-31T00:00:00.000Z', cure: 'Renew it' }
  t.strictSame(expiry.list(), [listed])
  now += 14 * day
  for (let n = 0; n < 3; n++) look(end)
  t.strictSame(told.slice(1), ['The certificate "a" expired on 2026-01-31. Renew it'])
  t.strictSame(expiry.list(), [listed], 'also when it has expired')
  look(now + 50 * day)
  t.strictSame(expiry.list(), [], 'a renewed one is not listed')
  look(now + 5 * day)
  t.match(told.at(-1), /expires on 2026-02-06/, 'the next certificate')
})

t.test('the first certificate of a text that expires', async t => {
  const [soon, late] = [3, 30].map(days => makeCertificate({ to: new Date(Date.now() + days * day) }).cert)
  t.ok(Math.abs(expiryOfPem(`${late}\n${soon}`) - Date.now() - 3 * day) < day)
  t.equal(expiryOfPem('none'), Infinity)
  t.equal(expiryOfPem(undefined), Infinity)
})

t.test('an agent reads the authority of its hub again, and keeps it while the file cannot be used', async t => {
  const [first, second] = [makeSigned().authority.cert, makeSigned().authority.cert]
  let file: string | Error = first
  let now = Date.now()
  const told: string[] = []
  const tell = (line: string): void => void told.push(line)
  const current = rereadCa({
    first,
    async read() {
      if (file instanceof Error) throw file
      return file
    },
    report: { info: tell, warn: tell },
    expiry: createExpiryWarnings(tell, { now: () => now }),
    clock: { now: () => now }
  })
  file = second
  t.equal(await current(), first, 'the file is read every 10 s')
  now += 10_000
  t.equal(await current(), second)
  for (const broken of [new Error('gone'), 'no certificate']) {
    file = broken
    for (let n = 0; n < 2; n++) {
      now += 10_000
      t.equal(await current(), second)
    }
  }
  t.match(told, [/^Read again/, /stays in use: gone$/, /stays in use: /])
  t.equal(told.length, 3, 'each problem is told once')
  file = makeCertificate({ isAuthority: true, to: new Date(now + 3 * 86_400_000) }).cert
  now += 10_000
  t.equal(await current(), file)
  t.match(told.at(-1), /^The authority of the hub expires on /)
})
