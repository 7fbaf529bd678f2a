import t from 'tap'
import { createExpiryWarnings, expiryOfPem } from '../../lib/server/expiry.js'
import { makeCertificate } from '../support/certificates.js'

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
