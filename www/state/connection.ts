/** Whether the last word from the server is an answer or silence. */
export type ConnectionState = 'open' | 'lost'

/** Dispatches `change` when the state does. */
export interface Connection extends EventTarget {
  readonly state: ConnectionState
  set(state: ConnectionState): void
}

/** The panel's one view of the connection; requests and streams report to it, the frame shows it. */
export function createConnection(): Connection {
  class Observed extends EventTarget implements Connection {
    #state: ConnectionState = 'open'

    get state(): ConnectionState {
      return this.#state
    }

    set(state: ConnectionState): void {
      if (state === this.#state) return
      this.#state = state
      this.dispatchEvent(new Event('change'))
    }
  }
  return new Observed()
}

/** Pause before the n-th attempt: doubling from the first to the longest, no two panels in step. */
export function pauseMs(attempt: number, random: () => number): number {
  const firstMs = 500
  const longestMs = 15_000
  return Math.min(longestMs, firstMs * 2 ** attempt) * (0.75 + random() / 2)
}
