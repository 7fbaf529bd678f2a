import type { TerminalInput } from '../model/terminal.js'
import type { Pty } from '../proc/pty.js'

type Input = Extract<TerminalInput, { type: 'input' }>

/** The input of one session: what its clients have sent, and how much of it the program's terminal has accepted. */
export interface SessionInput {
  /** Position after the input that the session has. */
  readonly received: number
  /** Whether a client that counts has not been told the newest position. */
  readonly isTakenDue: boolean
  /** A client connects, which may be one that does not count. */
  attach(): void
  /** Returns the position up to which the input is accepted, which the client is told now. */
  tell(): number
  /**
   * Passes on input; what the session already has is skipped. `onTaken` is called when a client that counts should be
   * told. `overflow` and `gap` mean that none of it was taken.
   */
  type(input: Input, onTaken: () => void): 'typed' | 'overflow' | 'gap'
}

/** Creates the input of a session. */
export function createSessionInput(pty: Pick<Pty, 'write'>): SessionInput {
  /** The first half of a character that a client cut between two inputs. It has no bytes, so it waits for the rest. */
  let half = ''
  let received = 0
  let taken = 0
  let told = 0
  let isCounting = false
  return {
    get received() {
      return received
    },
    get isTakenDue() {
      return isCounting && taken > told
    },
    tell: () => (told = taken),
    attach() {
      isCounting = false
    },
    type({ data, at }, onTaken) {
      isCounting = at !== undefined
      if (at !== undefined && at > received) return 'gap'
      const rest = withoutBytes(data, received - (at ?? received))
      const bytes = Buffer.byteLength(rest)
      if (bytes === 0) return 'typed'
      const text = half + rest
      const nextHalf = /[\ud800-\udbff]$/.test(text) ? text.slice(-1) : ''
      const isTyped = pty.write(nextHalf === '' ? text : text.slice(0, -1), () => {
        taken += bytes
        if (isCounting) onTaken()
      })
      if (!isTyped) return 'overflow'
      half = nextHalf
      received += bytes
      return 'typed'
    }
  }
}

/** Cuts off bytes that a client sends again. It cuts its messages as before, so no character is split. */
function withoutBytes(text: string, bytes: number): string {
  return bytes === 0 ? text : Buffer.from(text).subarray(bytes).toString()
}
