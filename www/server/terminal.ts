import type { TerminalAvailability, TerminalErrorReason, TerminalInput, TerminalMessage } from '../../lib/model/terminal.js'
import { pauseMs, Refused } from './client.js'
import type { Client } from './client.js'

/*
 * One session of the terminal over as many sockets as it takes (decisions §6): what has come is counted in bytes, so that
 * each further socket goes on exactly there.
 */

export type TerminalReady = Extract<TerminalMessage, { type: 'ready' }>

/** Why a session is over. */
export type TerminalEnd =
  | { kind: 'exited'; exitCode: number | null; signal: string | null }
  /** `refused`: it never began. */
  | { kind: 'closed'; reason: TerminalErrorReason | 'refused'; message: string }

export type TerminalState = 'connecting' | 'open' | 'lost' | 'ended'

/** The part of a WebSocket that is needed. */
export type TerminalSocket = Pick<WebSocket, 'send' | 'close' | 'onmessage' | 'onclose' | 'onopen' | 'readyState'>

export interface TerminalLinkNeeds {
  client: Pick<Client, 'address' | 'ask'>
  /** The directory it starts in is that project's; null: the server's user's own. */
  projectId: string | null
  size: { columns: number; rows: number }
  /** The session of an earlier page that is continued: its output comes again, as far as it is kept. */
  resumed?: { sessionId: string; receivedBytes: number } | undefined
  /** What the program wrote; `drawn` is called when the reader can see it, and lets the server send more. */
  onData: (text: string, drawn: () => void) => void
  /** Output was lost while the connection was: what is shown is no longer what the program knows. */
  onGap: () => void
  /** The state has changed, or what is known of it. */
  onState: () => void
  openSocket?: (address: string) => TerminalSocket
  timing?: Partial<TerminalTiming>
}

export interface TerminalTiming {
  /** How often the connection is looked at. */
  checkMs: number
  /** After so much silence the server is asked whether it is there, */
  silenceMs: number
  /** and after so much more it is not. */
  answerMs: number
}

export interface TerminalLink {
  readonly state: TerminalState
  /** Once the state is `ended`. */
  readonly end: TerminalEnd | null
  readonly ready: TerminalReady | null
  /** How much has come: the place in the session's output. */
  readonly receivedBytes: number
  /** The server answers, but not one of several sockets has reached it. */
  readonly isBlocked: boolean
  /** Keys and the like. What comes before the shell is there waits for it; while the connection is lost it is dropped. */
  send(bytes: string): void
  resize(columns: number, rows: number): void
  /** Ends the session and its shell. */
  close(): void
}

/** Below the server's limit for a message, whatever the escapes of JSON make of it. */
const maxInputLength = 64 * 1024
/** Typed before there is a shell. */
const maxEarlyLength = 1024
/** The server pauses the shell at 1 MiB. */
const ackBytes = 64 * 1024
const ackPauseMs = 100
const defaultTiming: TerminalTiming = { checkMs: 5_000, silenceMs: 20_000, answerMs: 10_000 }
const blockedAttempts = 2
const opened = 1

/** Begins a session. */
export function openTerminal(needs: TerminalLinkNeeds): TerminalLink {
  const { client, projectId, resumed, onData, onGap, onState, openSocket = address => new WebSocket(address) } = needs
  const { checkMs, silenceMs, answerMs } = { ...defaultTiming, ...needs.timing }
  const life = new AbortController()
  const encoder = new TextEncoder()
  let size = needs.size
  let state: TerminalState = 'connecting'
  let end: TerminalEnd | null = null
  let ready: TerminalReady | null = null
  let failures = 0
  let early = ''
  let socket: TerminalSocket | null = null
  let receivedBytes = 0
  let drawnBytes = 0
  let ackedBytes = 0
  let ackTimer: ReturnType<typeof setTimeout> | undefined

  const setState = (now: TerminalState): void => {
    if (now === state || state === 'ended') return
    state = now
    onState()
  }
  const finish = (why: TerminalEnd): void => {
    end ??= why
    setState('ended')
    life.abort()
  }
  const say = (message: TerminalInput): void => {
    if (socket?.readyState === opened && state === 'open') socket.send(JSON.stringify(message))
  }
  const acknowledge = (): void => {
    clearTimeout(ackTimer)
    ackTimer = undefined
    if (drawnBytes === ackedBytes) return
    ackedBytes = drawnBytes
    say({ type: 'ack', bytes: drawnBytes })
  }

  const send = (bytes: string): void => {
    // What the program asked of the screen then was answered then.
    if (resumed !== undefined && drawnBytes < resumed.receivedBytes) return
    if (ready === null && early.length < maxEarlyLength) early += bytes
    for (let at = 0; at < bytes.length; at += maxInputLength) {
      say({ type: 'input', data: bytes.slice(at, at + maxInputLength) })
    }
  }

  const takeData = (data: string): void => {
    const bytes = encoder.encode(data).length
    receivedBytes += bytes
    onData(data, () => {
      drawnBytes += bytes
      if (drawnBytes - ackedBytes >= ackBytes) acknowledge()
      else ackTimer ??= setTimeout(acknowledge, ackPauseMs)
    })
  }
  const takeReady = (message: TerminalReady): void => {
    const isGap = message.offset > receivedBytes
    ready = message
    if (isGap) {
      receivedBytes = drawnBytes = message.offset
      onGap()
    }
    ackedBytes = 0
    setState('open')
    acknowledge()
    send(early)
    early = ''
    if (message.cols !== size.columns || message.rows !== size.rows) {
      say({ type: 'resize', cols: size.columns, rows: size.rows })
    }
  }
  const take = (message: TerminalMessage): void => {
    if (message.type === 'ready') takeReady(message)
    else if (message.type === 'data') takeData(message.data)
    else if (message.type === 'exit') finish({ kind: 'exited', exitCode: message.exitCode, signal: message.signal })
    else if (message.type === 'error' && message.reason !== 'invalid_message' && message.reason !== 'input_overflow') {
      finish({ kind: 'closed', reason: message.reason, message: message.message })
    }
  }

  /** One socket, until it is closed or given up. */
  const converse = (address: string): Promise<void> => new Promise(resolve => {
    const mine = openSocket(address)
    socket = mine
    let heardAtMs = Date.now()
    let askedAtMs = 0
    const leave = (): void => {
      clearInterval(timer)
      mine.onopen = mine.onmessage = mine.onclose = null
      if (socket === mine) socket = null
      life.signal.removeEventListener('abort', stop)
      resolve()
    }
    const stop = (): void => {
      // A close frame ends the shell, which is what is wanted here, and nowhere else.
      mine.close()
      leave()
    }
    // A socket that is taken for dead is left as it is: a close frame that got through after all would end the shell.
    const check = (): void => {
      const nowMs = Date.now()
      if (askedAtMs > heardAtMs && nowMs - askedAtMs > answerMs) return leave()
      if (askedAtMs > heardAtMs || nowMs - heardAtMs < silenceMs) return
      askedAtMs = nowMs
      say({ type: 'ping' })
    }
    const timer = setInterval(check, checkMs)
    mine.onmessage = event => {
      heardAtMs = Date.now()
      take(JSON.parse(String(event.data)) as TerminalMessage)
    }
    mine.onclose = leave
    if (life.signal.aborted) stop()
    else life.signal.addEventListener('abort', stop)
  })

  const address = (): string => {
    const query = new URLSearchParams({ cols: String(size.columns), rows: String(size.rows) })
    if (ready !== null) {
      query.set('sessionId', ready.sessionId)
      query.set('from', String(receivedBytes))
    } else if (resumed !== undefined) {
      query.set('sessionId', resumed.sessionId)
      query.set('from', '0')
    } else if (projectId !== null) query.set('projectId', projectId)
    return client.address(`api/terminal/ws?${query}`).replace(/^http/, 'ws')
  }

  /** A browser does not tell why a socket was refused; the server does, when it is asked. */
  const askWhy = async (): Promise<void> => {
    const { available, reason } = await client.ask<TerminalAvailability>('GET', 'api/terminal/available', { signal: life.signal })
    if (!available) return finish({ kind: 'closed', reason: 'refused', message: reason ?? '' })
    if (++failures === blockedAttempts) onState()
  }

  const run = async (): Promise<void> => {
    for (let attempt = 0; !life.signal.aborted; attempt++) {
      try {
        await converse(address())
        if (state === 'open') attempt = 0
        else await askWhy()
      } catch (error) {
        if (life.signal.aborted) return
        if (error instanceof Refused) return finish({ kind: 'closed', reason: 'refused', message: error.message })
      }
      if (life.signal.aborted) return
      setState('lost')
      await wait(pauseMs(attempt, Math.random), life.signal)
    }
  }
  void run()

  return {
    get state() {
      return state
    },
    get end() {
      return end
    },
    get ready() {
      return ready
    },
    get receivedBytes() {
      return receivedBytes
    },
    get isBlocked() {
      return ready === null && failures >= blockedAttempts
    },
    send,
    resize(columns, rows) {
      if (columns === size.columns && rows === size.rows) return
      size = { columns, rows }
      say({ type: 'resize', cols: columns, rows })
    },
    close() {
      clearTimeout(ackTimer)
      life.abort()
    }
  }
}

/** Waits, or until the network is back, or nobody waits any more. */
function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const life = new AbortController()
    const finish = (): void => {
      clearTimeout(timer)
      life.abort()
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal.addEventListener('abort', finish, { signal: life.signal })
    globalThis.addEventListener?.('online', finish, { signal: life.signal })
  })
}
