/*
 * Requests that last: a body that arrives slowly, an answer that takes long, a stream, a WebSocket. Their callers had the
 * right at the beginning. They are checked again, whatever the route:
 *
 * - when the last byte of a body has arrived, before its reader gets to know it: the request is refused
 * - before the answer to a read, if rights have changed since it began: the request is refused
 * - in the transaction of a change that took long to compute (`checkAgain` of its actor): the change is refused
 * - while a reply is being sent: the connection is closed, after a change through this server at once, after any other
 *   within a second (another hub, a file on the disk), and within a minute if something has expired
 *
 * Who changes something may finish it when its token has expired. A change that was made is answered in any case.
 */
import type { Exchange } from './exchange.js'
import type { Reply } from './route.js'

/** Says whether callers are still accepted. */
export interface Standing<A> {
  /** Returns a text that changes whenever a caller may have lost rights otherwise than by the passing of time. */
  version(): string
  /** Refuses a caller that would not be accepted any more as at the beginning. `finishes`: it may have expired. */
  check(actor: A, finishes: boolean): void
}

const lookEveryMs = 1000
/** Time between two checks of all callers, for what has expired. */
const checkEveryMs = 60_000

export class LastingRequests<A> {
  readonly #standing: Standing<A>
  /** With the number of changes that were seen when each began; null: its reply is a stream, which has begun. */
  readonly #open = new Map<Exchange, number | null>()
  #version: string | undefined
  #changes = 0
  #checkedAtMs = -Infinity
  #timer: NodeJS.Timeout | undefined

  constructor(standing: Standing<A>) {
    this.#standing = standing
  }

  enter(exchange: Exchange): void {
    if (this.#open.size === 0) this.#begin()
    this.#open.set(exchange, this.#changes)
  }

  leave(exchange: Exchange): void {
    this.#open.delete(exchange)
  }

  /** Refuses a caller that would not be accepted any more. */
  check(exchange: Exchange): void {
    if (exchange.actor !== undefined) this.#standing.check(exchange.actor as A, !isRead(exchange))
  }

  /** Looks for changes before a reply is sent. Refuses the reply to a read whose caller has lost the right. */
  beforeReply(exchange: Exchange, { kind }: Reply): void {
    if (!isRead(exchange)) this.#look()
    else if (this.#open.get(exchange) !== this.#changes) this.check(exchange)
    const seen = this.#open.get(exchange)
    if (kind !== 'stream' && kind !== 'file' && kind !== 'websocket') return
    this.#open.set(exchange, null)
    // What the change of somebody who has lost the right goes on to say is not for them.
    if (seen !== this.#changes) this.#cutIfEnded(exchange)
  }

  #begin(): void {
    this.#look()
    this.#timer ??= setInterval(() => this.#tick(), lookEveryMs).unref()
  }

  #tick(): void {
    if (this.#open.size > 0) return this.#look()
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(): void {
    const version = this.#standing.version()
    const nowMs = performance.now()
    if (version !== this.#version) this.#changes++
    else if (nowMs - this.#checkedAtMs < checkEveryMs) return
    this.#version = version
    this.#checkedAtMs = nowMs
    for (const [exchange, seen] of this.#open) if (seen === null) this.#cutIfEnded(exchange)
  }

  #cutIfEnded(exchange: Exchange): void {
    try {
      this.check(exchange)
    } catch {
      exchange.request.socket.destroy()
    }
  }
}

function isRead({ method }: Exchange): boolean {
  return method === 'GET' || method === 'HEAD'
}
