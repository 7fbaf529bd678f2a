/*
 * The wire of the terminal: one JSON object a text frame. Positions count the UTF-8 bytes of all `data` since the
 * session began, whichever connection they went over.
 */

/** What a client says. */
export type TerminalInput =
  | { type: 'input'; data: string }
  | { type: 'resize'; cols: number; rows: number }
  | { type: 'ping' }
  /** The position up to which `data` has been drawn. */
  | { type: 'ack'; bytes: number }

/** What the server says. */
export type TerminalMessage =
  /** The first one of a connection. `offset`: the position at which the next `data` begins. */
  | {
      type: 'ready'
      sessionId: string
      pid: number
      shell: string
      cwd: string
      projectId: string | null
      cols: number
      rows: number
      offset: number
    }
  | { type: 'data'; data: string }
  /** After all data; the server closes. */
  | { type: 'exit'; exitCode: number | null; signal: string | null }
  /** The server closes, but for `invalid_message` and `input_overflow`. */
  | { type: 'error'; reason: TerminalErrorReason; message: string }
  /** Milliseconds since 1970. */
  | { type: 'pong'; ts: number }

export type TerminalErrorReason =
  | 'session_not_found'
  | 'too_many_sessions'
  | 'shell_failed'
  | 'taken_over'
  | 'idle'
  | 'disabled'
  | 'stopping'
  | 'invalid_message'
  | 'input_overflow'

/** `GET /api/terminal/available`; `reason`: why not, a sentence; `code`: that of the refusal it would be. */
export interface TerminalAvailability {
  available: boolean
  reason?: string
  code?: string
}

export const maxTerminalSide = 1000
export const defaultTerminalSize = { cols: 80, rows: 24 } as const
