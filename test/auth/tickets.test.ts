import t from 'tap'
import { createTickets } from '../../lib/auth/tickets.js'
import { randomIds } from '../../lib/base/ids.js'
import { setClock } from '../support/clock.js'

t.test('a ticket is valid once, for its purpose, for 30 seconds', async t => {
  const clock = setClock()
  const tickets = createTickets({ clock, ids: randomIds })
  const { ticket, expiresAt } = tickets.issue('download')
  t.equal(Date.parse(expiresAt) - clock.now(), 30_000)
  t.equal(tickets.redeem(ticket, 'download'), true)
  t.equal(tickets.redeem(ticket, 'download'), false, 'used up')

  const other = tickets.issue('download').ticket
  t.equal(tickets.redeem(other, 'terminal'), false, 'another purpose')
  t.equal(tickets.redeem(other, 'download'), false, 'the wrong purpose also uses it up')

  const late = tickets.issue('terminal').ticket
  clock.advance(30_000)
  t.equal(tickets.redeem(late, 'terminal'), false, 'expired')
  t.equal(tickets.redeem('', 'terminal'), false)
})

t.test('limits unused tickets and drops expired ones', async t => {
  const clock = setClock()
  const tickets = createTickets({ clock, ids: randomIds })
  for (let i = 0; i < 1000; i++) tickets.issue('terminal')
  t.throws(() => tickets.issue('terminal'), { kind: 'too_many', code: 'too_many_tickets' })
  clock.advance(30_001)
  t.ok(tickets.issue('terminal').ticket)
})
