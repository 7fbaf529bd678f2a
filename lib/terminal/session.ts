/*
 * One terminal: a shell, and the client that is connected to it at the moment, if any.
 *
 * Output and input never wait for one another. Output goes from the shell into the flow, and from there to the client,
 * one frame at a time, each awaited; the shell is paused while too much is unacknowledged. What the client says is
 * handled at once.
 *
 * STATES     connected    a client is attached
 *            alone        none is: the shell goes on, until `aloneMs` have passed
 *            over         ended, for one recorded reason: the first one
 * A shell that exits does not end the session while there is output nobody has seen: its exit is the last thing a
 * client hears, now or when it comes back.
 */
import type { Actor } from '../model/audit.js'
import type { TerminalErrorReason, TerminalInput, TerminalMessage } from '../model/terminal.js'
import type { Pty, PtyEnded } from '../proc/pty.js'
import { createFlow, defaultFlowLimits } from './flow.js'
import type { FlowLimits } from './flow.js'

export interface SessionLimits extends FlowLimits {
  /** Without input and output. */
  idleMs: number
  /** Without a client. */
  aloneMs: number
}

export const defaultSessionLimits: SessionLimits = {
  ...defaultFlowLimits,
  idleMs: 30 * 60_000, // decisions §6
  aloneMs: 2 * 60_000 // decisions §6
}

/** Where a session sends what it says. */
export interface TerminalClient {
  /** Resolves when more may be sent. What is sent to a client that is gone is dropped. */
  send(message: TerminalMessage): Promise<void>
  /** Nothing more is sent. */
  end(code: number, reason: string): void
}

/** What is told of a session when a client connects. */
export interface SessionFacts {
  sessionId: string
  shell: string
  cwd: string
  projectId: string | null
}

/** Why a session is over. `closed`: the client sent a close frame; `lost`: nobody came back. */
export type EndReason = 'exited' | 'closed' | 'lost' | 'idle' | 'disabled' | 'stopping'

export interface Session {
  readonly facts: SessionFacts
  /** Whether its shell runs. */
  readonly isRunning: boolean
  /** The client hears from now on, and alone: one that was connected is told and sent away. */
  attach(client: TerminalClient, options: Attachment): void
  /** What a client says; of one that is no longer connected it means nothing. */
  take(client: TerminalClient, input: TerminalInput): void
  /** The client is gone: its close frame ends the session, a broken connection does not. */
  detach(client: TerminalClient, how: 'closed' | 'broken'): void
  /** Ends it for good. Resolves when the shell has ended. */
  end(reason: EndReason): Promise<void>
}

interface Attachment {
  actor: Actor
  size?: { cols: number; rows: number } | undefined
  /** See Flow.rewind. */
  from?: number | undefined
}

export interface SessionOptions {
  facts: SessionFacts
  pty: Pty
  size: { cols: number; rows: number }
  limits: SessionLimits
  now(): number
  /** Called once: nothing can be attached any more. `actor` was the last one connected. */
  onOver(end: { reason: EndReason; exit: PtyEnded | undefined; actor: Actor | undefined }): void
}

/** What a client is told at the end, and the code of the close frame. */
const farewells: Record<'idle' | 'disabled' | 'stopping' | 'taken_over', [code: number, message: string]> = {
  idle: [4408, 'The terminal was closed: nothing was typed or printed for a long time'],
  disabled: [4403, 'The terminal was closed: it has been switched off in the settings'],
  stopping: [1001, 'The terminal was closed: the server is shutting down'],
  taken_over: [4409, 'The terminal goes on in another window']
}

/** See the head of this file. */
export function createSession({ facts, pty, limits, now, onOver, ...options }: SessionOptions): Session {
  let { size } = options
  const flow = createFlow(limits)
  let client: TerminalClient | undefined
  let actor: Actor | undefined
  let exit: PtyEnded | undefined
  let isOver = false
  let isPaused = false
  let isPongDue = false
  /** Whom the pump serves. */
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

  /** Pauses the shell, or lets it go on. */
  function hold(): void {
    const must = client !== undefined && flow.isFull
    if (must === isPaused) return
    isPaused = must
    if (must) pty.pause()
    else pty.resume()
  }

  /** Once a turn of the event loop, so that what several reads gave goes as one frame. */
  function pumpSoon(): void {
    if (isPumpDue) return
    isPumpDue = true
    setImmediate(() => {
      isPumpDue = false
      if (client !== undefined && client !== served) void pump(client)
    })
  }

  /** Sends what there is, one frame after the other; what comes meanwhile waits for its turn. */
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
    const data = flow.take()
    if (data !== '') return { type: 'data', data }
    return exit === undefined ? undefined : { type: 'exit', ...exit }
  }

  function leaveAlone(): void {
    client = undefined
    hold()
    alone = setTimeout(() => void end('lost'), limits.aloneMs)
  }

  function dismiss(reason: keyof typeof farewells): void {
    const [code, message] = farewells[reason]
    void client?.send({ type: 'error', reason, message })
    client?.end(code, message)
  }

  function complain(reason: TerminalErrorReason, message: string): void {
    void client?.send({ type: 'error', reason, message })
  }

  function over(reason: EndReason): void {
    if (isOver) return
    isOver = true
    clearTimeout(idle)
    clearTimeout(alone)
    if (reason === 'exited') client?.end(1000, 'The shell has exited')
    else if (reason !== 'closed' && reason !== 'lost') dismiss(reason)
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
      if (client !== undefined) dismiss('taken_over')
      clearTimeout(alone)
      client = newcomer
      actor = who
      isPongDue = false
      if (wanted !== undefined) pty.resize((size = wanted))
      const offset = flow.rewind(from)
      hold()
      void client.send({ type: 'ready', ...facts, pid: pty.pid, ...size, offset })
      pumpSoon()
    },
    take(from, input) {
      if (from !== client) return
      switch (input.type) {
        case 'input':
          idle.refresh()
          if (!pty.write(input.data)) complain('input_overflow', 'The input was dropped: the program does not read what was typed before')
          return
        case 'resize':
          size = { cols: input.cols, rows: input.rows }
          return pty.resize(size)
        case 'ping':
          isPongDue = true
          return pumpSoon()
        case 'ack':
          if (flow.ack(input.bytes) === 'ahead') complain('invalid_message', 'The message was not understood: "bytes" is more than was sent')
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
