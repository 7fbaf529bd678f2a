/*
 * One session of the terminal over several sockets. The received output is counted in bytes, so each further socket
 * continues exactly there.
 */
import type {
  TerminalAvailability,
  TerminalErrorReason,
  TerminalInput,
  TerminalMessage
} from '../../lib/model/terminal.js'
import { type Client, Refused } from './client.js'
import { pauseMs } from './requests.js'

/*
 * The input of one session of the terminal, from the keyboard to a server that takes a limited amount at a time.
 *
 *     0 … taken ………… sent ………… end
 *         passed to    handed to   typed or
 *         the program  a socket    pasted
 *
 * Positions count UTF-8 bytes, as those of the output do. A further socket continues where the server stands, so a
 * connection that breaks in the middle of a paste loses and repeats nothing.
 */

/** A part of the input, small enough for one message. */
interface Piece {
  /** The position of its first byte. */
  at: number
  bytes: number
  data: string
}

/** Sends a piece. `at` is absent for a server that does not count its input. */
type SendPiece = (input: { type: 'input'; data: string; at?: number }) => void

/** Maximum length of an input message. Escaped as JSON it stays below the limit of the server. */
const maxInputLength = 64 * 1024
/** Maximum number of bytes that the server has not passed to the program. It takes 1 MiB. */
const windowBytes = 256 * 1024
/** Maximum number of bytes that wait here. */
const maxWaitingBytes = 64 * 1024 * 1024

/** Creates the input of a session. Nothing is sent before `open` and after `pause`. */
export function createTerminalInput(send: SendPiece) {
  const encoder = new TextEncoder()
  /** What is not taken yet. */
  let pieces: Piece[] = []
  let isOpen = false
  let isCounted = false
  let taken = 0
  let sent = 0
  let end = 0

  function sendMore(): void {
    if (!isOpen) return
    for (const { at, bytes, data } of pieces) {
      if (at < sent) continue
      if (isCounted && sent > taken && at + bytes - taken > windowBytes) return
      sent = at + bytes
      send(isCounted ? { type: 'input', data, at } : { type: 'input', data })
    }
    if (!isCounted) drop(sent)
  }

  function drop(position: number): void {
    taken = Math.max(taken, position)
    pieces = pieces.filter(({ at, bytes }) => at + bytes > taken)
  }

  return {
    /** Adds input, and sends what the server may have. Returns false, without taking any of it, if too much waits. */
    push(input: string): boolean {
      if (end - taken + input.length > maxWaitingBytes) return false
      for (const data of inputPieces(input)) {
        const { length: bytes } = encoder.encode(data)
        pieces.push({ at: end, bytes, data })
        end += bytes
      }
      sendMore()
      return true
    },
    /** Sends nothing until the next `open`. */
    pause(): void {
      isOpen = false
    },
    /** Continues on a socket. `offset` is the position that the server has; undefined if it does not count. */
    open(offset: number | undefined): void {
      isOpen = true
      isCounted = offset !== undefined
      const position = offset ?? sent
      drop(position)
      // Someone else has typed into the session, or it is older than this page.
      if (position > sent) renumber(position)
      sent = position
      sendMore()
    },
    /** The server has passed everything before `position` to the program. */
    taken(position: number): void {
      drop(Math.min(position, sent))
      sendMore()
    }
  }

  function renumber(position: number): void {
    end = position
    for (const piece of pieces) {
      piece.at = end
      end += piece.bytes
    }
  }
}

/** Splits input into messages. The two halves of a surrogate pair stay together: one half alone has no form in UTF-8. */
function* inputPieces(input: string): Generator<string> {
  let at = 0
  while (at < input.length) {
    let end = Math.min(at + maxInputLength, input.length)
    if (end < input.length && /^[\ud800-\udbff][\udc00-\udfff]/.test(input.slice(end - 1, end + 1))) end--
    yield input.slice(at, end)
    at = end
  }
}

/** The first message of a socket. */
export type TerminalReady = Extract<TerminalMessage, { type: 'ready' }>

/** The reason for the end of a session. */
export type TerminalEnd =
  | { kind: 'exited'; exitCode: number | null; signal: string | null }
  /** `refused` means that it never began. */
  | { kind: 'closed'; reason: TerminalErrorReason | 'refused'; message: string }

export type TerminalState = 'connecting' | 'open' | 'lost' | 'ended'

/** The used part of a WebSocket. */
export type TerminalSocket = Pick<WebSocket, 'send' | 'close' | 'onmessage' | 'onclose' | 'onopen' | 'readyState'>

export interface TerminalLinkNeeds {
  client: Pick<Client, 'address' | 'ask' | 'ensureProven'>
  /** Project in whose directory the shell starts. Null starts it in the home directory of the server's user. */
  projectId: string | null
  size: { columns: number; rows: number }
  /** A session of an earlier page to continue. The server sends its stored output again. */
  resumed?: { sessionId: string; receivedBytes: number } | undefined
  /** Takes output of the program. Calling `drawn` when it is visible lets the server send more. */
  onData: (text: string, drawn: () => void) => void
  /**
   * Called if output was lost with the connection, so that the screen differs from what the program expects. `modes` are
   * the control sequences that set what the lost output has set.
   */
  onGap: (modes: string) => void
  /** Called when the state changes. */
  onState: () => void
  openSocket?: (address: string) => TerminalSocket
  timing?: Partial<TerminalTiming>
}

/** Times of the connection check. */
export interface TerminalTiming {
  /** Interval of the check. */
  checkMs: number
  /** Silence after which a ping is sent. */
  silenceMs: number
  /** Time for the answer to the ping. */
  answerMs: number
}

/** A running session. */
export interface TerminalLink {
  readonly state: TerminalState
  /** Reason for the end, if the state is `ended`. */
  readonly end: TerminalEnd | null
  readonly ready: TerminalReady | null
  /** Number of received bytes of the session's output. */
  readonly receivedBytes: number
  /** Whether the server answers requests but no socket has reached it. */
  readonly isBlocked: boolean
  /** Whether the newest input was refused, because the program does not read what it was given. */
  readonly isInputLost: boolean
  /**
   * Sends input, as fast as the server takes it. Input before the start of the shell waits; input while the connection
   * is lost is dropped.
   */
  send(bytes: string): void
  resize(columns: number, rows: number): void
  /** Ends the session and its shell. */
  close(): void
}

/** Maximum length of input before the start of the shell. */
const maxEarlyLength = 1024
/** Bytes between two acknowledgements. The server pauses the shell at 1 MiB without one. */
const ackBytes = 64 * 1024
const ackPauseMs = 100
const defaultTiming: TerminalTiming = { checkMs: 5_000, silenceMs: 20_000, answerMs: 10_000 }
const blockedAttempts = 2
const opened = 1

/** Starts or continues a session. */
export function openTerminal(needs: TerminalLinkNeeds): TerminalLink {
  const session = new Session(needs)
  void session.run()
  return session
}

class Session implements TerminalLink {
  state: TerminalState = 'connecting'
  end: TerminalEnd | null = null
  ready: TerminalReady | null = null
  receivedBytes = 0
  isInputLost = false
  readonly #needs: TerminalLinkNeeds
  readonly #timing: TerminalTiming
  readonly #life = new AbortController()
  readonly #encoder = new TextEncoder()
  #size: TerminalLinkNeeds['size']
  #failures = 0
  #earlyLength = 0
  readonly #input = createTerminalInput(piece => this.#say(piece))
  #socket: TerminalSocket | null = null
  #drawnBytes = 0
  #ackedBytes = 0
  #ackTimer: ReturnType<typeof setTimeout> | undefined

  constructor(needs: TerminalLinkNeeds) {
    this.#needs = needs
    this.#timing = { ...defaultTiming, ...needs.timing }
    this.#size = needs.size
  }

  get isBlocked(): boolean {
    return this.ready === null && this.#failures >= blockedAttempts
  }

  send(bytes: string): void {
    const { resumed } = this.#needs
    // Queries in repeated output were answered before.
    if (resumed !== undefined && this.#drawnBytes < resumed.receivedBytes) return
    if (this.ready !== null && (this.state !== 'open' || this.#socket === null)) return
    if (this.ready === null && (this.#earlyLength += bytes.length) - bytes.length >= maxEarlyLength) return
    this.#setInputLost(!this.#input.push(bytes))
  }

  resize(columns: number, rows: number): void {
    if (columns === this.#size.columns && rows === this.#size.rows) return
    this.#size = { columns, rows }
    this.#say({ type: 'resize', cols: columns, rows })
  }

  close(): void {
    clearTimeout(this.#ackTimer)
    this.#life.abort()
  }

  /** Opens one socket after another until the session has ended. */
  async run(): Promise<void> {
    const { signal } = this.#life
    for (let attempt = 0; !signal.aborted; attempt++) {
      try {
        await this.#converse(this.#address())
        if (this.state === 'open') attempt = 0
        else await this.#askWhy()
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof Refused) {
          return this.#finish({ kind: 'closed', reason: 'refused', message: error.message })
        }
      }
      if (signal.aborted) return
      this.#setState('lost')
      await wait(pauseMs(attempt, Math.random), signal)
    }
  }

  #setState(now: TerminalState): void {
    if (now === this.state || this.state === 'ended') return
    this.state = now
    this.#needs.onState()
  }

  #setInputLost(isLost: boolean): void {
    if (isLost === this.isInputLost) return
    this.isInputLost = isLost
    this.#needs.onState()
  }

  #finish(why: TerminalEnd): void {
    this.end ??= why
    this.#setState('ended')
    this.#life.abort()
  }

  #say(message: TerminalInput): void {
    if (this.#socket?.readyState === opened && this.state === 'open') this.#socket.send(JSON.stringify(message))
  }

  #acknowledge(): void {
    clearTimeout(this.#ackTimer)
    this.#ackTimer = undefined
    if (this.#drawnBytes === this.#ackedBytes) return
    this.#ackedBytes = this.#drawnBytes
    this.#say({ type: 'ack', bytes: this.#drawnBytes })
  }

  #take(message: TerminalMessage): void {
    if (message.type === 'ready') this.#takeReady(message)
    else if (message.type === 'data') this.#takeData(message.data)
    else if (message.type === 'taken') this.#input.taken(message.bytes)
    else if (message.type === 'exit') {
      this.#finish({ kind: 'exited', exitCode: message.exitCode, signal: message.signal })
    } else if (message.type === 'error' && message.reason === 'input_overflow') this.#setInputLost(true)
    else if (message.type === 'error' && message.reason !== 'invalid_message') {
      this.#finish({ kind: 'closed', reason: message.reason, message: message.message })
    }
  }

  #takeData(data: string): void {
    const bytes = this.#encoder.encode(data).length
    this.receivedBytes += bytes
    this.#needs.onData(data, () => {
      this.#drawnBytes += bytes
      if (this.#drawnBytes - this.#ackedBytes >= ackBytes) this.#acknowledge()
      else this.#ackTimer ??= setTimeout(() => this.#acknowledge(), ackPauseMs)
    })
  }

  #takeReady(message: TerminalReady): void {
    const isGap = message.offset > this.receivedBytes
    this.ready = message
    if (isGap) {
      this.receivedBytes = this.#drawnBytes = message.offset
      this.#needs.onGap(message.modes ?? '')
    }
    this.#ackedBytes = 0
    this.#setState('open')
    this.#acknowledge()
    this.#input.open(message.inputOffset)
    const { columns, rows } = this.#size
    if (message.cols !== columns || message.rows !== rows) this.#say({ type: 'resize', cols: columns, rows })
  }

  /** Uses one socket until it is closed or abandoned. */
  #converse(address: string): Promise<void> {
    const { openSocket = address => new WebSocket(address) } = this.#needs
    const { checkMs, silenceMs, answerMs } = this.#timing
    const { signal } = this.#life
    return new Promise(resolve => {
      const mine = openSocket(address)
      this.#socket = mine
      let heardAtMs = Date.now()
      let askedAtMs = 0
      const leave = (): void => {
        clearInterval(timer)
        mine.onopen = mine.onmessage = mine.onclose = null
        if (this.#socket === mine) this.#socket = null
        this.#input.pause()
        signal.removeEventListener('abort', stop)
        resolve()
      }
      const stop = (): void => {
        // A close frame ends the shell, which is intended only here.
        mine.close()
        leave()
      }
      // A dead socket is abandoned: a close frame that arrives late would end the shell.
      const check = (): void => {
        const nowMs = Date.now()
        if (askedAtMs > heardAtMs && nowMs - askedAtMs > answerMs) return leave()
        if (askedAtMs > heardAtMs || nowMs - heardAtMs < silenceMs) return
        askedAtMs = nowMs
        this.#say({ type: 'ping' })
      }
      const timer = setInterval(check, checkMs)
      mine.onmessage = event => {
        heardAtMs = Date.now()
        this.#take(JSON.parse(String(event.data)) as TerminalMessage)
      }
      mine.onclose = leave
      if (signal.aborted) stop()
      else signal.addEventListener('abort', stop)
    })
  }

  #address(): string {
    const { client, projectId, resumed } = this.#needs
    const query = new URLSearchParams({ cols: String(this.#size.columns), rows: String(this.#size.rows) })
    if (this.ready !== null) {
      query.set('sessionId', this.ready.sessionId)
      query.set('from', String(this.receivedBytes))
    } else if (resumed !== undefined) {
      query.set('sessionId', resumed.sessionId)
      query.set('from', '0')
    } else if (projectId !== null) query.set('projectId', projectId)
    return client.address(`api/terminal/ws?${query}`).replace(/^http/, 'ws')
  }

  /** Asks the server why it refused a socket. Browsers do not report the reason. */
  async #askWhy(): Promise<void> {
    const { client, onState } = this.#needs
    const { available, reason } = await client.ask<TerminalAvailability>('GET', 'api/terminal/available', {
      signal: this.#life.signal
    })
    if (!available) return this.#finish({ kind: 'closed', reason: 'refused', message: reason ?? '' })
    await client.ensureProven()
    if (++this.#failures === blockedAttempts) onState()
  }
}

/** Waits until the time has passed, the network is back, or the signal is aborted. */
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
