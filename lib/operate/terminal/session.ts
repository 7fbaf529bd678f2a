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

import { type Actor, hasLostRight } from '../../model/audit.js'
import {
  type ClientLeft,
  revokedCode,
  type TerminalErrorReason,
  type TerminalInput,
  type TerminalMessage
} from '../../model/terminal.js'
import type { Pty, PtyEnded } from '../../core/proc/pty.js'
import { defaultFlowLimits, Flow, type FlowLimits } from './flow.js'

export interface SessionLimits extends FlowLimits {
  /** Time without input and output after which the session ends. */
  idleMs: number
  /** Time without a client after which the session ends. */
  aloneMs: number
}

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

/**
 * Why a session ended. `closed`: the client sent a close frame. `lost`: no client reconnected in time. `revoked`: its user
 * has lost the right.
 */
export type EndReason = 'exited' | 'closed' | 'lost' | 'idle' | 'disabled' | 'revoked' | 'stopping'

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
const farewells: Record<'idle' | 'disabled' | 'revoked' | 'stopping' | 'taken_over', [code: number, message: string]> =
  {
    idle: [4408, 'Terminal closed: no input or output for too long'],
    disabled: [4403, 'Terminal closed: terminals were disabled in the settings'],
    revoked: [revokedCode, 'Terminal closed: the token or session that opened it was revoked, replaced or limited'],
    stopping: [1001, 'Terminal closed: the server is shutting down'],
    taken_over: [4409, 'The terminal was opened in another window']
  }

export class Session {
  readonly #options: SessionOptions
  #size: { cols: number; rows: number }
  readonly #flow: Flow
  #client: TerminalClient | undefined
  #actor: Actor | undefined
  #exit: PtyEnded | undefined
  readonly #input: SessionInput
  #isOver = false
  #isPaused = false
  #isPongDue = false
  /** The client that the pump is sending to. */
  #served: TerminalClient | undefined
  #isPumpDue = false
  readonly #idle: NodeJS.Timeout
  #alone: NodeJS.Timeout | undefined

  constructor(options: SessionOptions) {
    this.#options = options
    this.#size = options.size
    this.#flow = new Flow(options.limits)
    this.#input = createSessionInput(options.pty)
    this.#idle = setTimeout(() => void this.end('idle'), options.limits.idleMs)
    options.pty.onData(text => {
      this.#idle.refresh()
      if (this.#isOver) return
      this.#flow.push(text, this.#client !== undefined)
      this.#hold()
      this.#pumpSoon()
    })
    void options.pty.ended.then(ended => {
      this.#exit = ended
      this.#pumpSoon()
    })
  }

  get facts(): SessionFacts {
    return this.#options.facts
  }

  /** Whether the user who was connected last could not connect any more. */
  get isRevoked(): boolean {
    return this.#actor !== undefined && hasLostRight(this.#actor)
  }

  /** Whether its shell is running. */
  get isRunning(): boolean {
    return this.#exit === undefined
  }

  /** Connects a client. A client that was connected before is told so and disconnected. */
  attach(newcomer: TerminalClient, { actor: who, size: wanted, from }: Attachment): void {
    const { pty, facts } = this.#options
    if (this.#client !== undefined) dismiss(this.#client, 'taken_over')
    clearTimeout(this.#alone)
    this.#client = newcomer
    this.#actor = who
    this.#isPongDue = false
    this.#input.attach()
    if (wanted !== undefined) pty.resize((this.#size = wanted))
    const offset = this.#flow.rewind(from)
    this.#hold()
    void this.#client.send({
      type: 'ready',
      ...facts,
      pid: pty.pid,
      ...this.#size,
      offset,
      modes: this.#flow.modes,
      inputOffset: this.#input.received
    })
    this.#pumpSoon()
  }

  /** Handles input of a client. Input of a client that is no longer connected is ignored. */
  take(from: TerminalClient, message: TerminalInput): void {
    if (from !== this.#client) return
    switch (message.type) {
      case 'input':
        this.#idle.refresh()
        return this.#type(from, message)
      case 'resize':
        this.#size = { cols: message.cols, rows: message.rows }
        return this.#options.pty.resize(this.#size)
      case 'ping':
        this.#isPongDue = true
        return this.#pumpSoon()
      case 'ack':
        if (this.#flow.ack(message.bytes) === 'ahead')
          complain(this.#client, 'invalid_message', 'Invalid message: "bytes" is greater than the number of bytes sent')
        return this.#hold()
    }
  }

  /** Disconnects a client. A close frame ends the session, and so does a lost right; a broken connection does not. */
  detach(gone: TerminalClient, how: ClientLeft): void {
    if (gone !== this.#client) return
    if (how === 'broken' && !this.isRevoked) this.#leaveAlone()
    else void this.end(how === 'closed' ? 'closed' : 'revoked')
  }

  /** Ends the session. Resolves when the shell has ended. */
  async end(reason: EndReason): Promise<void> {
    this.#over(reason === 'lost' && this.#exit !== undefined ? 'exited' : reason)
    await this.#options.pty.end({ isWhole: reason === 'revoked' })
  }

  /** Pauses the shell if the client lags behind; resumes it otherwise. */
  #hold(): void {
    const { pty } = this.#options
    const must = this.#client !== undefined && this.#flow.isFull
    if (must === this.#isPaused) return
    this.#isPaused = must
    if (must) pty.pause()
    else pty.resume()
  }

  /** Starts the pump once per turn of the event loop, so that the output of several reads becomes one frame. */
  #pumpSoon(): void {
    if (this.#isPumpDue) return
    this.#isPumpDue = true
    setImmediate(() => {
      this.#isPumpDue = false
      if (this.#client !== undefined && this.#client !== this.#served) void this.#pump(this.#client)
    })
  }

  /**
   * Sends the pending messages one after the other. Messages that arrive meanwhile wait until the current frame is
   * sent.
   */
  async #pump(to: TerminalClient): Promise<void> {
    this.#served = to
    while (this.#client === to) {
      const message = this.#nextMessage()
      if (message === undefined) break
      await to.send(message)
      if (message.type === 'exit' && this.#client === to) this.#over('exited')
    }
    if (this.#served === to) this.#served = undefined
  }

  #nextMessage(): TerminalMessage | undefined {
    if (this.#isPongDue) {
      this.#isPongDue = false
      return { type: 'pong', ts: this.#options.now() }
    }
    if (this.#input.isTakenDue) return { type: 'taken', bytes: this.#input.tell() }
    const data = this.#flow.take()
    if (data !== '') return { type: 'data', data }
    return this.#exit === undefined ? undefined : { type: 'exit', ...this.#exit }
  }

  #type(from: TerminalClient, message: Extract<TerminalInput, { type: 'input' }>): void {
    const outcome = this.#input.type(message, () => this.#pumpSoon())
    if (outcome === 'overflow') complain(from, 'input_overflow', 'Input dropped: the program does not read its input')
    if (outcome === 'gap')
      complain(from, 'invalid_message', 'Invalid message: "at" is greater than the number of input bytes received')
  }

  #leaveAlone(): void {
    this.#client = undefined
    this.#hold()
    this.#alone = setTimeout(() => void this.end('lost'), this.#options.limits.aloneMs)
  }

  #over(reason: EndReason): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#idle)
    clearTimeout(this.#alone)
    if (reason === 'exited') this.#client?.end(1000, 'The shell has exited')
    else if (reason !== 'closed' && reason !== 'lost') dismiss(this.#client, reason)
    this.#client = undefined
    this.#options.onOver({ reason, exit: this.#exit, actor: this.#actor })
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
