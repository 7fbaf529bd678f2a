import t from 'tap'
import { rereadCa } from '../../lib/server/ca-file.js'
import { createExpiryWarnings } from '../../lib/server/expiry.js'
import { makeCertificate, makeSigned } from '../support/certificates.js'

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
