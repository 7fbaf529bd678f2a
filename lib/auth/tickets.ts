import { elapsedOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import type { Ids } from '../base/ids.js'
import { Refusal } from '../base/refusal.js'

/** What a browser asks for without being able to send a header: a WebSocket, a plain download. */
export const ticketPurposes = ['terminal', 'download'] as const
export type TicketPurpose = (typeof ticketPurposes)[number]

/** A single-use right in a URL, so that no long-lived token is ever in one. */
export interface Tickets {
  /** Refuses: 429 `too_many_tickets`. */
  issue(purpose: TicketPurpose): { ticket: string; expiresAt: string }
  /** Whether the ticket was good for this purpose; it is used up either way. */
  redeem(ticket: string, purpose: TicketPurpose): boolean
}

const lifetimeMs = 30_000
/** Unused tickets at a time. */
const maxTickets = 1000

export function createTickets({ clock, ids }: { clock: Clock; ids: Pick<Ids, 'token'> }): Tickets {
  const open = new Map<string, { purpose: TicketPurpose; goodUntilMs: number }>()

  function dropExpired(nowMs: number): void {
    for (const [ticket, { goodUntilMs }] of open) {
      if (goodUntilMs > nowMs) return // all live equally long: the map is in order of expiry
      open.delete(ticket)
    }
  }

  return {
    issue(purpose) {
      const nowMs = elapsedOf(clock)
      dropExpired(nowMs)
      if (open.size >= maxTickets) {
        const sentence = `No ticket can be given: there are ${maxTickets} that nobody has used yet`
        throw new Refusal('too_many', 'too_many_tickets', sentence, { retryAfterSeconds: lifetimeMs / 1000 })
      }
      const ticket = ids.token()
      open.set(ticket, { purpose, goodUntilMs: nowMs + lifetimeMs })
      return { ticket, expiresAt: new Date(clock.now() + lifetimeMs).toISOString() }
    },
    redeem(ticket, purpose) {
      // A map finds by hash: how long it takes says nothing of how much of a guess was right.
      const found = open.get(ticket)
      open.delete(ticket)
      return found !== undefined && found.purpose === purpose && found.goodUntilMs > elapsedOf(clock)
    }
  }
}
