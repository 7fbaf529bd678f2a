/*
 * One terminal session: a shell, and the client that is connected to it, if any.
 *
 * Output and input never wait for each other. Output goes from the shell into the flow, and from there to the client,
 * one awaited frame at a time. The shell is paused while too much output is unacknowledged. Input is handled at once.
 *
 * STATES     connected    a client is attached
 *            alone        no client is attached; the shell continues until `aloneMs` have passed
 *            over         ended, for one recorded reason: the first one
 *
 * If the shell exits while there is output that no client has seen, the session does not end yet. The exit is the last
 * message that a client gets, now or after it reconnects.
 */

import type { Actor } from '../../model/audit.js'
import type { TerminalErrorReason, TerminalInput, TerminalMessage } from '../../model/terminal.js'
import type { Pty, PtyEnded } from '../../core/proc/pty.js'
import { createFlow, defaultFlowLimits, type FlowLimits } from './flow.js'

/** Limits of a session. */
export interface SessionLimits extends FlowLimits {
  /** Time without input and output after which the session ends. */
  idleMs: number
  /** Time without a client after which the session ends. */
  aloneMs: number
}

/** Default limits of a session. */
export const defaultSessionLimits: SessionLimits = {
  ...defaultFlowLimits,
  idleMs: 30 * 60_000, // decisions §6
  aloneMs: 2 * 60_000 // decisions §6
}

/** Where a session sends its messages. */
export interface TerminalClient {
  /** Sends a message. Resolves when more may be sent. Messages to a client that is gone are dropped. */
  send(message: TerminalMessage): Promise<void>
  /** Closes the connection with this code. Nothing more is sent. */
  end(code: number, reason: string): void
}

/** Facts about a session that a client gets when it connects. */
export interface SessionFacts {
  sessionId: string
  shell: string
  cwd: string
  projectId: string | null
}

/** Why a session ended. `closed`: the client sent a close frame. `lost`: no client reconnected in time. */
export type EndReason = 'exited' | 'closed' | 'lost' | 'idle' | 'disabled' | 'stopping'

/** A running session. */
export interface Session {
  readonly facts: SessionFacts
  /** Whether its shell is running. */
  readonly isRunning: boolean
  /** Connects a client. A client that was connected before is told so and disconnected. */
  attach(client: TerminalClient, options: Attachment): void
  /** Handles input of a client. Input of a client that is no longer connected is ignored. */
  take(client: TerminalClient, input: TerminalInput): void
  /** Disconnects a client. A close frame ends the session, a broken connection does not. */
  detach(client: TerminalClient, how: 'closed' | 'broken'): void
  /** Ends the session. Resolves when the shell has ended. */
  end(reason: EndReason): Promise<void>
}

interface Attachment {
  actor: Actor
  size?: { cols: number; rows: number } | undefined
  /** Position of the output to continue from, see Flow.rewind. */
  from?: number | undefined
}

export interface SessionOptions {
  facts: SessionFacts
  pty: Pty
  size: { cols: number; rows: number }
  limits: SessionLimits
  now(): number
  /** Called once, when no client can attach any more. `actor` is the user who was connected last. */
  onOver(end: { reason: EndReason; exit: PtyEnded | undefined; actor: Actor | undefined }): void
}

/** The message that a client gets at the end, and the code of the close frame. */
const farewells: Record<'idle' | 'disabled' | 'stopping' | 'taken_over', [code: number, message: string]> = {
  idle: [4408, 'Terminal closed: no input or output for too long'],
  disabled: [4403, 'Terminal closed: terminals were disabled in the settings'],
  stopping: [1001, 'Terminal closed: the server is shutting down'],
  taken_over: [4409, 'The terminal was opened in another window']
}

/** Creates a session around a running shell; see the head of this file. */
export function createSession({ facts, pty, limits, now, onOver, ...options }: SessionOptions): Session {
  let { size } = options
  const flow = createFlow(limits)
  let client: TerminalClient | undefined
  let actor: Actor | undefined
  let exit: PtyEnded | undefined
  const input = createSessionInput(pty)
  let isOver = false
  let isPaused = false
  let isPongDue = false
  /** The client that the pump is sending to. */
  let served: TerminalClient | undefined
  let isPumpDue = false
  const idle = setTimeout(() => void end('idle'), limits.idleMs)
  let alone: NodeJS.Timeout | undefined

  pty.onData(text => {
    idle.refresh()
    if (isOver) return
    flow.push(text, client !== undefined)
    hold()
    pumpSoon()
  })
  void pty.ended.then(ended => {
    exit = ended
    pumpSoon()
  })

  /** Pauses the shell if the client lags behind; resumes it otherwise. */
  function hold(): void {
    const must = client !== undefined && flow.isFull
    if (must === isPaused) return
    isPaused = must
    if (must) pty.pause()
    else pty.resume()
  }

  /** Starts the pump once per turn of the event loop, so that the output of several reads becomes one frame. */
  function pumpSoon(): void {
    if (isPumpDue) return
    isPumpDue = true
    setImmediate(() => {
      isPumpDue = false
      if (client !== undefined && client !== served) void pump(client)
    })
  }

  /**
   * Sends the pending messages one after the other. Messages that arrive meanwhile wait until the current frame is
   * sent.
   */
  async function pump(to: TerminalClient): Promise<void> {
    served = to
    while (client === to) {
      const message = nextMessage()
      if (message === undefined) break
      await to.send(message)
      if (message.type === 'exit' && client === to) over('exited')
    }
    if (served === to) served = undefined
  }

  function nextMessage(): TerminalMessage | undefined {
    if (isPongDue) {
      isPongDue = false
      return { type: 'pong', ts: now() }
    }
    if (input.isTakenDue) return { type: 'taken', bytes: input.tell() }
    const data = flow.take()
    if (data !== '') return { type: 'data', data }
    return exit === undefined ? undefined : { type: 'exit', ...exit }
  }

  function type(from: TerminalClient, message: Extract<TerminalInput, { type: 'input' }>): void {
    const outcome = input.type(message, pumpSoon)
    if (outcome === 'overflow') complain(from, 'input_overflow', 'Input dropped: the program does not read its input')
    if (outcome === 'gap')
      complain(from, 'invalid_message', 'Invalid message: "at" is greater than the number of input bytes received')
  }

  function leaveAlone(): void {
    client = undefined
    hold()
    alone = setTimeout(() => void end('lost'), limits.aloneMs)
  }

  function over(reason: EndReason): void {
    if (isOver) return
    isOver = true
    clearTimeout(idle)
    clearTimeout(alone)
    if (reason === 'exited') client?.end(1000, 'The shell has exited')
    else if (reason !== 'closed' && reason !== 'lost') dismiss(client, reason)
    client = undefined
    onOver({ reason, exit, actor })
  }

  async function end(reason: EndReason): Promise<void> {
    over(reason === 'lost' && exit !== undefined ? 'exited' : reason)
    await pty.end()
  }

  return {
    facts,
    get isRunning() {
      return exit === undefined
    },
    attach(newcomer, { actor: who, size: wanted, from }) {
      if (client !== undefined) dismiss(client, 'taken_over')
      clearTimeout(alone)
      client = newcomer
      actor = who
      isPongDue = false
      input.attach()
      if (wanted !== undefined) pty.resize((size = wanted))
      const offset = flow.rewind(from)
      hold()
      void client.send({
        type: 'ready',
        ...facts,
        pid: pty.pid,
        ...size,
        offset,
        modes: flow.modes,
        inputOffset: input.received
      })
      pumpSoon()
    },
    take(from, message) {
      if (from !== client) return
      switch (message.type) {
        case 'input':
          idle.refresh()
          return type(from, message)
        case 'resize':
          size = { cols: message.cols, rows: message.rows }
          return pty.resize(size)
        case 'ping':
          isPongDue = true
          return pumpSoon()
        case 'ack':
          if (flow.ack(message.bytes) === 'ahead')
            complain(client, 'invalid_message', 'Invalid message: "bytes" is greater than the number of bytes sent')
          return hold()
      }
    },
    detach(gone, how) {
      if (gone !== client) return
      if (how === 'closed') void end('closed')
      else leaveAlone()
    },
    end
  }
}

function dismiss(client: TerminalClient | undefined, reason: keyof typeof farewells): void {
  const [code, message] = farewells[reason]
  complain(client, reason, message)
  client?.end(code, message)
}

function complain(client: TerminalClient | undefined, reason: TerminalErrorReason, message: string): void {
  void client?.send({ type: 'error', reason, message })
}

type Input = Extract<TerminalInput, { type: 'input' }>

/** The input of one session: what its clients have sent, and how much of it the program's terminal has accepted. */
export type SessionInput = ReturnType<typeof createSessionInput>

/** Creates the input of a session. */
export function createSessionInput(pty: Pick<Pty, 'write'>) {
  /** The first half of a character that a client cut between two inputs. It has no bytes, so it waits for the rest. */
  let half = ''
  let received = 0
  let taken = 0
  let told = 0
  let isCounting = false
  return {
    /** Position after the input that the session has. */
    get received() {
      return received
    },

    /** Whether a client that counts has not been told the newest position. */
    get isTakenDue() {
      return isCounting && taken > told
    },

    /** Returns the position up to which the input is accepted, which the client is told now. */
    tell: (): number => (told = taken),

    /** A client connects, which may be one that does not count. */
    attach(): void {
      isCounting = false
    },

    /**
     * Passes on input; what the session already has is skipped. `onTaken` is called when a client that counts should be
     * told. `overflow` and `gap` mean that none of it was taken.
     */
    type({ data, at }: Input, onTaken: () => void): 'typed' | 'overflow' | 'gap' {
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
