import { streamHeaders } from './core/reply.js'
import type { Reply, Sink } from './core/route.js'

/** How a stream shows that it is alive while there is nothing to write. */
interface KeepAlive {
  /** What is written then. Readers skip it. */
  text: string
  everyMs: number
}

/** Interval of keep-alive texts (§8). */
const defaultKeepAliveMs = 15_000

/** What a stream writes at a time: a chunk, or several that nothing may be written between. */
type Chunks = string | Uint8Array | AsyncIterable<string>

/** Runs a stream. A client that does not read gets no keep-alive texts; they would only pile up. */
export async function keptAlive(
  sink: Sink,
  { text, everyMs }: KeepAlive,
  run: (write: (chunks: Chunks) => Promise<void>) => Promise<void>
): Promise<void> {
  let waiting = 0
  async function write(chunks: Chunks): Promise<void> {
    waiting++
    try {
      if (typeof chunks === 'string' || chunks instanceof Uint8Array) await sink.write(chunks)
      else for await (const chunk of chunks) await sink.write(chunk)
    } finally {
      waiting--
    }
  }
  const timer = setInterval(() => {
    if (waiting === 0) write(text).catch(() => {})
  }, everyMs)
  try {
    await run(write)
  } finally {
    clearInterval(timer)
  }
}

/** Encodes JSON values as lines of such a reply, so that the same bytes can be written to many clients. */
export function encodeLines(values: readonly unknown[]): Buffer {
  return Buffer.from(values.map(lineOf).join(''))
}

/**
 * Returns a reply with one JSON value per line (§6.2). Bytes passed to `write` are lines from `encodeLines`. `run`
 * awaits each `write`, which waits while the client is slow and rejects when it is gone; then the signal is aborted
 * too. With `isBegun` the head is sent first. With `lasting` the stream continues until somebody stops it: it sends an
 * empty line while there is nothing to write, which readers skip.
 */
export function ndjson(
  run: (write: (value: unknown) => Promise<void>, signal: AbortSignal) => Promise<void>,
  {
    headers = {},
    isBegun = false,
    lasting = false,
    heldBytes,
    keepAliveMs = defaultKeepAliveMs
  }: {
    headers?: Record<string, string>
    isBegun?: boolean
    lasting?: boolean
    heldBytes?: number
    keepAliveMs?: number
  } = {}
): Reply {
  return {
    kind: 'stream',
    status: 200,
    headers: { ...streamHeaders, 'content-type': 'application/x-ndjson', ...headers },
    ...(lasting && { lasting }),
    ...(heldBytes !== undefined && { heldBytes }),
    run(sink) {
      if (isBegun) sink.sendHead()
      if (!lasting) return run(value => sink.write(chunkOf(value)), sink.signal)
      return keptAlive(sink, { text: '\n', everyMs: keepAliveMs }, write =>
        run(value => write(chunkOf(value)), sink.signal)
      )
    }
  }
}

/** Returns the bytes or the line of a value. */
function chunkOf(value: unknown): string | Uint8Array {
  return value instanceof Uint8Array ? value : lineOf(value)
}

function lineOf(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}

/** One event of a stream. Text is sent as it is, other data as JSON. */
interface ServerEvent {
  event?: string
  data: unknown
  /** Id that the client sends as `Last-Event-ID` when it reconnects. */
  id?: string | number
}

/** An event whose data is an object with a list that is longer than what should be in memory. */
interface PartedEvent {
  event: string
  data: Record<string, unknown>
  /** The name of the list in `data`, and its items. */
  list: { name: string; parts: AsyncIterable<readonly unknown[]> }
  /** Returns the id, after the last part. */
  id(): string
}

/** Sends events to one client. */
export interface Events {
  /** Sends an event, or bytes from `encodeEvents`. Resolves when more may be sent; rejects when the client is gone. */
  send(event: ServerEvent | Uint8Array): Promise<void>
  /**
   * Sends an event whose JSON has no end yet. The parts are asked for as the client reads them. If one fails, the event
   * ends after those before it, and then the error is thrown.
   */
  sendParts(event: PartedEvent): Promise<void>
  comment(text: string): Promise<void>
}

/**
 * Returns a reply of server-sent events (WHATWG HTML §9.2). It opens at once, before the first event, and sends
 * `:keep-alive` while there are no events. The stream ends when `run` ends. The signal is aborted when the client goes
 * away or the server stops.
 */
export function eventStream(
  run: (events: Events, signal: AbortSignal) => Promise<void>,
  { keepAliveMs = defaultKeepAliveMs, heldBytes }: { keepAliveMs?: number; heldBytes?: number } = {}
): Reply {
  return {
    kind: 'stream',
    status: 200,
    headers: { ...streamHeaders, 'content-type': 'text/event-stream; charset=utf-8' },
    lasting: true,
    ...(heldBytes !== undefined && { heldBytes }),
    run: sink =>
      keptAlive(sink, { text: ':keep-alive\n\n', everyMs: keepAliveMs }, async write => {
        await write(':open\n\n')
        await run(
          {
            send: event => write(event instanceof Uint8Array ? event : formatEvent(event)),
            sendParts: event => write(formatParts(event)),
            comment: text => write(formatComment(text))
          },
          sink.signal
        )
      })
  }
}

/** Encodes events as bytes of such a stream, so that the same bytes can be sent to many clients. */
export function encodeEvents(events: readonly ServerEvent[]): Buffer {
  return Buffer.from(events.map(formatEvent).join(''))
}

const lineEnds = /\r\n|\r|\n/

function formatEvent({ event, data, id }: ServerEvent): string {
  let text = ''
  if (event !== undefined) text += `event: ${oneLine(event)}\n`
  if (id !== undefined) text += `id: ${oneLine(String(id))}\n`
  const payload = typeof data === 'string' ? data : JSON.stringify(data)
  return `${text}${lines('data: ', payload)}\n`
}

/** JSON contains no line ends, so all of it is one line of the event. */
async function* formatParts({ event, data, list: { name, parts }, id }: PartedEvent): AsyncGenerator<string> {
  yield `event: ${oneLine(event)}\ndata: {${JSON.stringify(name)}:[`
  let failure: { error: unknown } | null = null
  let before = ''
  try {
    for await (const items of parts) {
      if (items.length === 0) continue
      yield before + JSON.stringify(items).slice(1, -1)
      before = ','
    }
  } catch (error) {
    failure = { error }
  }
  const rest = JSON.stringify(data).slice(1)
  yield `]${rest === '}' ? rest : `,${rest}`}\nid: ${oneLine(id())}\n\n`
  if (failure !== null) throw failure.error
}

function formatComment(text: string): string {
  return `${lines(':', text)}\n`
}

function lines(prefix: string, text: string): string {
  if (!lineEnds.test(text)) return `${prefix}${text}\n`
  return text
    .split(lineEnds)
    .map(line => `${prefix}${line}\n`)
    .join('')
}

/** Checks a name or id. A line break in it would begin another field, and NUL makes a client ignore the id. */
function oneLine(text: string): string {
  if (/[\r\n\0]/.test(text)) throw new Error('The name or id of an event contains a line break or NUL')
  return text
}
