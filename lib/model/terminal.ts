/*
 * The protocol of the terminal: one JSON object per text frame. Positions count the UTF-8 bytes of all `data` since the
 * session began, across all of its connections: those of the server for the output, those of its clients for the input.
 */

/** A message from a client. */
export type TerminalInput =
  /**
   * With `at`, the position of its first byte in the input, what the session already has is skipped, and `taken`
   * messages follow.
   */
  | { type: 'input'; data: string; at?: number }
  | { type: 'resize'; cols: number; rows: number }
  | { type: 'ping' }
  /** The position up to which the client has drawn `data`. */
  | { type: 'ack'; bytes: number }

/** A message from the server. */
export type TerminalMessage =
  /**
   * The first message of a connection. `offset` is the position at which the next `data` begins, `inputOffset` the one
   * of the next input. `modes` are control sequences for a client that has lost the output before `offset`.
   */
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
      modes?: string
      inputOffset?: number
    }
  | { type: 'data'; data: string }
  /** The position up to which the program's terminal has accepted the input. */
  | { type: 'taken'; bytes: number }
  /** Sent after all data; the server then closes the connection. */
  | { type: 'exit'; exitCode: number | null; signal: string | null }
  /** The server closes the connection, except after `invalid_message` and `input_overflow`. */
  | { type: 'error'; reason: TerminalErrorReason; message: string }
  /** `ts` is in milliseconds since 1970. */
  | { type: 'pong'; ts: number }

/** Why the server refuses a message or closes a terminal. */
export type TerminalErrorReason =
  | 'session_not_found'
  | 'too_many_sessions'
  | 'shell_failed'
  | 'taken_over'
  | 'idle'
  | 'disabled'
  | 'revoked'
  | 'stopping'
  | 'invalid_message'
  | 'input_overflow'

/**
 * The answer of `GET /api/terminal/available`. If the terminal is not available, `reason` is a sentence that says why,
 * and `code` is the error code that opening one would return.
 */
export interface TerminalAvailability {
  available: boolean
  reason?: string
  code?: string
}

/** How a client has left: on purpose, its connection is gone, or its user has lost the right. */
export type ClientLeft = 'closed' | 'broken' | 'revoked'

/** The code of the close frame to a client whose user has lost the right. */
export const revokedCode = 4401

/** Maximum number of columns or rows of a terminal. */
export const maxTerminalSide = 1000
/** The size of a terminal if the client does not give one. */
export const defaultTerminalSize = { cols: 80, rows: 24 } as const
