import type { TerminalInput, TerminalMessage } from '../../lib/model/terminal.js'
import { createPtyLoader } from '../../lib/core/proc/pty.js'
import type { TerminalSocket } from '../../www/server/terminal.js'
import type { Client } from './client.js'
import { openWebSocket, type RawWebSocket } from './websocket.js'

const module = await createPtyLoader()()

/** Why the tests of the terminal cannot run here; false if they can. */
export const noPty: string | false = module.outcome === 'loaded' ? false : module.reason

type Ready = Extract<TerminalMessage, { type: 'ready' }>

/** A client of the terminal like the panel: it collects the output and acknowledges it. */
export interface WebTerminal {
  raw: RawWebSocket
  ready: Ready
  /** The output from `ready.offset` on. */
  drawn(): string
  /** The position after the output. */
  position(): number
  say(message: TerminalInput): void
  type(text: string): void
  /** Waits until the output matches. Rejects if the connection ends before. */
  sees(pattern: RegExp): Promise<RegExpExecArray>
  /** Returns the next message other than data. */
  hears(): Promise<Exclude<TerminalMessage, { type: 'data' }>>
  /** The close code of the server; null if there is none. */
  closed(): Promise<number | null>
}

export interface OpenTerminal {
  /** Default: the terminal of the server itself. */
  path?: string
  /** Parameters of the address: cols, rows, projectId, sessionId, from. */
  query?: Record<string, string>
  headers?: Record<string, string>
  /** The authorization. Default: a ticket that `client` gets. */
  ticket?: string
  /** Whether to acknowledge the output. Default: true. */
  acknowledges?: boolean
  /** The trusted certificates. */
  ca?: string
}

export interface Stage {
  url: string
  client: Client
}

export async function ticketOf({ client }: Pick<Stage, 'client'>): Promise<string> {
  const { body } = await client.post('/api/tickets', { purpose: 'terminal' })
  return (body as { ticket: string }).ticket
}

/** Opens the connection only, whatever the server answers. */
export async function connectTerminal(stage: Stage, options: OpenTerminal = {}): Promise<RawWebSocket> {
  const ticket = options.ticket ?? (await ticketOf(stage))
  const query = new URLSearchParams({ ...(ticket === '' ? {} : { ticket }), ...options.query })
  const { headers, ca } = options
  return openWebSocket(`${stage.url}${options.path ?? '/api/terminal/ws'}?${query}`, {
    ...(headers && { headers }),
    ...(ca && { ca })
  })
}

/**
 * Returns a socket for the panel's side of the terminal, as a browser would. `address` is that of a terminal. `cut`
 * breaks the connection.
 */
export function browserSocket(stage: Stage, address: string): TerminalSocket & { cut(): void } {
  let raw: RawWebSocket | undefined
  const socket = {
    readyState: 0,
    onopen: null,
    onmessage: null,
    onclose: null,
    send: (text: string) => raw?.say(text),
    close: () => raw?.close(1000),
    cut: () => raw?.socket.destroy()
  } as { -readonly [name in keyof TerminalSocket]: TerminalSocket[name] } & { cut(): void }
  void (async () => {
    raw = await connectTerminal(stage, { query: Object.fromEntries(new URLSearchParams(address.split('?')[1])) })
    socket.readyState = 1
    for (let frame = await raw.next(); frame?.startsWith('text '); frame = await raw.next())
      socket.onmessage?.call(socket as never, { data: frame.slice(5) } as never)
    socket.readyState = 3
    socket.onclose?.call(socket as never, {} as never)
  })()
  return socket
}

/** Opens a terminal. Its first message is `ready`. */
export async function openTerminal(stage: Stage, options: OpenTerminal = {}): Promise<WebTerminal> {
  const raw = await connectTerminal(stage, options)
  if (raw.status !== 101) throw new Error(`${raw.status} ${await raw.body()}`)
  return followTerminal(raw, options)
}

async function followTerminal(raw: RawWebSocket, { acknowledges = true }: OpenTerminal): Promise<WebTerminal> {
  const texts: string[] = []
  const heard: Array<Exclude<TerminalMessage, { type: 'data' }>> = []
  let closeCode: number | null = null
  let isOver = false
  let wake = (): void => {}
  const change = (): Promise<void> => new Promise(resolve => (wake = resolve))
  let position = 0

  const say = (message: TerminalInput): void => raw.say(JSON.stringify(message))

  function take(message: TerminalMessage): void {
    if (message.type !== 'data') return void heard.push(message)
    texts.push(message.data)
    position += Buffer.byteLength(message.data)
    if (acknowledges) say({ type: 'ack', bytes: position })
  }

  const first = await raw.next()
  const ready = JSON.parse(first?.replace(/^text /, '') ?? 'null') as TerminalMessage | null
  if (ready?.type !== 'ready') throw new Error(`The terminal is not ready: ${first}`)
  position = ready.offset
  void (async () => {
    for (let frame = await raw.next(); frame !== null; frame = await raw.next()) {
      if (frame.startsWith('text ')) take(JSON.parse(frame.slice(5)) as TerminalMessage)
      else if (frame.startsWith('close')) {
        closeCode = Number(frame.slice(6))
        raw.close(closeCode)
      }
      wake()
    }
    isOver = true
    wake()
  })()

  return {
    raw,
    ready,
    drawn: () => texts.join(''),
    position: () => position,
    say,
    type: data => say({ type: 'input', data }),
    async sees(pattern) {
      for (;;) {
        const found = pattern.exec(texts.join(''))
        if (found !== null) return found
        if (isOver) throw new Error(`${pattern} was never drawn, but:\n${texts.join('').slice(-2000)}`)
        await change()
      }
    },
    async hears() {
      while (heard.length === 0 && !isOver) await change()
      const message = heard.shift()
      if (message === undefined) throw new Error('The server said nothing more')
      return message
    },
    async closed() {
      while (!isOver) await change()
      return closeCode
    }
  }
}

/** Returns the first message of a connection that gets no session. */
export async function refusalOf(raw: RawWebSocket): Promise<{ reason: string; message: string; code: string | null }> {
  const error = JSON.parse((await raw.next())?.replace(/^text /, '') ?? 'null') as { reason: string; message: string }
  const code = await raw.next()
  raw.socket.destroy()
  return { ...error, code }
}
