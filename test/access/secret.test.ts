import t from 'tap'
import { createTickets, digestText, isSameSecret } from '../../lib/access/secret.js'
import { randomIds } from '../../lib/base/digests.js'
import { setClock } from '../support/clock.js'

t.test('compares secrets of any length', async t => {
  const cases: Array<[string, string, boolean]> = [
    ['abc', 'abc', true],
    ['abc', 'abd', false],
    ['abc', 'abcd', false],
    ['', '', true],
    ['', 'a', false],
    ['ä', 'a\u0308', false],
    ['abc\0', 'abc', false],
    ['', '\0', false],
    ['€'.repeat(128), '€'.repeat(128), true],
    ['€'.repeat(128), `${'€'.repeat(127)}₭`, false],
    ['x'.repeat(128), 'x'.repeat(129), false],
    ['x'.repeat(129), 'x'.repeat(128), false],
    ['x'.repeat(4096), 'x'.repeat(4096), true],
    ['x'.repeat(4096), `${'x'.repeat(4095)}y`, false]
  ]
  for (const [given, kept, same] of cases) t.equal(isSameSecret(given, kept), same, `"${given}" and "${kept}"`)
})

t.test('the digest of a secret is its SHA-256 in base64url', async t => {
  t.equal(digestText('abc'), 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0')
})

const holder = { tokenId: 'tok_a' }

t.test('a ticket is valid once, for its purpose, for 30 seconds', async t => {
  const clock = setClock()
  const tickets = createTickets({ clock, ids: randomIds })
  const { ticket, expiresAt } = tickets.issue('download', holder)
  t.equal(Date.parse(expiresAt) - clock.now(), 30_000)
  t.match(tickets.redeem(ticket, 'download'), holder)
  t.equal(tickets.redeem(ticket, 'download'), null, 'used up')

  const other = tickets.issue('download', holder).ticket
  t.equal(tickets.redeem(other, 'terminal'), null, 'another purpose')
  t.equal(tickets.redeem(other, 'download'), null, 'the wrong purpose also uses it up')

  const late = tickets.issue('terminal', holder).ticket
  clock.advance(30_000)
  t.equal(tickets.redeem(late, 'terminal'), null, 'expired')
  t.equal(tickets.redeem('', 'terminal'), null)
})

t.test('a ticket ends with the rights of who asked for it', async t => {
  const tickets = createTickets({ clock: setClock(), ids: randomIds })
  let hasRight = true
  const checkAgain = (): void => {
    if (!hasRight) throw new Error('revoked')
  }
  const [used, unused] = [1, 2].map(() => tickets.issue('terminal', { tokenId: null, checkAgain }).ticket)
  t.ok(tickets.redeem(used as string, 'terminal'))
  hasRight = false
  t.equal(tickets.redeem(unused as string, 'terminal'), null)
})

t.test('limits unused tickets and drops expired ones', async t => {
  const clock = setClock()
  const tickets = createTickets({ clock, ids: randomIds })
  for (let i = 0; i < 1000; i++) tickets.issue('terminal', holder)
  t.throws(() => tickets.issue('terminal', holder), { kind: 'too_many', code: 'too_many_tickets' })
  clock.advance(30_001)
  t.ok(tickets.issue('terminal', holder).ticket)
})
