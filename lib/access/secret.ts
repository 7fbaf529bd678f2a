import * as crypto from 'node:crypto'
import { type Clock, elapsedOf } from '../base/clock.js'
import type { Ids } from '../base/digests.js'
import { Refusal } from '../base/errors.js'
import type { FoundSession } from './sessions.js'

/**
 * Secrets up to this length are compared directly, longer ones by their digests. Generated secrets have 43 characters.
 */
const maxDirectLength = 128
/** Space for that many characters in UTF-8. */
const directBytes = 3 * maxDirectLength
/** Buffer for the secret that was sent. One is enough, because comparing is synchronous. */
const sent = Buffer.alloc(directBytes)

/**
 * Returns a function that compares secrets with `kept`. Its time reveals nothing about the position of a difference. Of
 * the length, it reveals only whether it is over 128 characters. It is called for every request: comparing directly
 * takes a third of the time of comparing digests (bench/api).
 */
export function createComparison(kept: string): (given: string) => boolean {
  if (kept.length > maxDirectLength) {
    const digest = digestOf(kept)
    return given => crypto.timingSafeEqual(digestOf(given), digest)
  }
  const expected = Buffer.alloc(directBytes)
  const bytes = expected.write(kept)
  return given => {
    if (given.length > maxDirectLength) return false
    sent.fill(0)
    const sentBytes = sent.write(given)
    return crypto.timingSafeEqual(sent, expected) && sentBytes === bytes
  }
}

/** Hashes a secret. The one-shot function (Node 20.12) takes a quarter less time than a hash object. */
function digestOf(secret: string): Buffer {
  return crypto.hash === undefined
    ? crypto.createHash('sha256').update(secret).digest()
    : crypto.hash('sha256', secret, 'buffer')
}

/** Returns the digest of a secret as text, to look it up. */
export function digestText(secret: string): string {
  return crypto.hash === undefined
    ? crypto.createHash('sha256').update(secret).digest('base64url')
    : crypto.hash('sha256', secret, 'base64url')
}

/** Whether two secrets are equal, compared as in `createComparison`. */
export function isSameSecret(given: string, kept: string): boolean {
  return createComparison(kept)(given)
}

/** Requests for which a browser cannot send headers: WebSockets and plain downloads. */
export const ticketPurposes = ['terminal', 'download'] as const
export type TicketPurpose = (typeof ticketPurposes)[number]

/** Who asked for a ticket. It has the rights of this caller when it is used. */
export interface TicketHolder {
  /** The named token; null: the admin token. */
  tokenId: string | null
  /** The session that asked; undefined: it was none. */
  session?: FoundSession | undefined
  /** Refuses if who asked would not be accepted any more. The ticket ends then, and so does what was opened with it. */
  checkAgain?: ((finishes: boolean) => void) | undefined
}

/** Single-use tickets in URLs, so that no URL contains a long-lived token. */
export type Tickets = ReturnType<typeof createTickets>

const lifetimeMs = 30_000
/** Maximum number of unused tickets. */
const maxTickets = 1000

export function createTickets({ clock, ids }: { clock: Clock; ids: Pick<Ids, 'token'> }) {
  const open = new Map<string, { purpose: TicketPurpose; goodUntilMs: number; holder: TicketHolder }>()

  function dropExpired(nowMs: number): void {
    for (const [ticket, { goodUntilMs }] of open) {
      if (goodUntilMs > nowMs) return // all live equally long: the map is in order of expiry
      open.delete(ticket)
    }
  }

  return {
    /** Issues a ticket. Refuses: 429 `too_many_tickets`. */
    issue(purpose: TicketPurpose, holder: TicketHolder): { ticket: string; expiresAt: string } {
      const nowMs = elapsedOf(clock)
      dropExpired(nowMs)
      if (open.size >= maxTickets) {
        const sentence = `Cannot issue a ticket: there are already ${maxTickets} unused tickets. Try again in a moment`
        throw new Refusal('too_many', 'too_many_tickets', sentence, { retryAfterSeconds: lifetimeMs / 1000 })
      }
      const ticket = ids.token()
      open.set(ticket, { purpose, goodUntilMs: nowMs + lifetimeMs, holder })
      return { ticket, expiresAt: new Date(clock.now() + lifetimeMs).toISOString() }
    },

    /** Returns the holder of a ticket for this purpose, or null if it is not valid. Invalidates it in either case. */
    redeem(ticket: string, purpose: TicketPurpose): TicketHolder | null {
      // A map finds by hash, so the time reveals nothing about how much of a guess was correct.
      const found = open.get(ticket)
      open.delete(ticket)
      if (found === undefined || found.purpose !== purpose || found.goodUntilMs <= elapsedOf(clock)) return null
      try {
        found.holder.checkAgain?.(false)
        return found.holder
      } catch {
        return null
      }
    }
  }
}
