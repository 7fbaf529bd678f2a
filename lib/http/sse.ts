import { streamHeaders } from './reply.js'
import type { Reply, Sink } from './route.js'

/** One event of the stream. A text goes as it stands, anything else as JSON. */
export interface ServerEvent {
  event?: string
  data: unknown
  /** What the client sends back as `Last-Event-ID` when it connects again. */
  id?: string | number
}

export interface Events {
  /** Bytes are events that `encodeEvents` made. Resolves when more may be sent; rejects once the client is gone. */
  send(event: ServerEvent | Uint8Array): Promise<void>
  comment(text: string): Promise<void>
}

/** §8 */
export const defaultKeepAliveMs = 15_000

/**
 * A reply of server-sent events (WHATWG HTML §9.2). It opens at once, before the first event, and says `:keep-alive`
 * while there is nothing to say. The stream ends when `run` does; the signal is aborted when the client goes away or
 * the server stops.
 */
export function eventStream(
  run: (events: Events, signal: AbortSignal) => Promise<void>,
  { keepAliveMs = defaultKeepAliveMs }: { keepAliveMs?: number } = {}
): Reply {
  return {
    kind: 'stream',
    status: 200,
    headers: { ...streamHeaders, 'content-type': 'text/event-stream; charset=utf-8' },
    lasting: true,
    run: sink => follow(sink, run, keepAliveMs)
  }
}

async function follow(
  sink: Sink, run: (events: Events, signal: AbortSignal) => Promise<void>, keepAliveMs: number
): Promise<void> {
  let waiting = 0
  async function write(chunk: string | Uint8Array): Promise<void> {
    waiting++
    try {
      await sink.write(chunk)
    } finally {
      waiting--
    }
  }
  // A client that does not read what it has got needs no sign of life, and would only pile them up.
  const keepAlive = setInterval(() => {
    if (waiting === 0) write(':keep-alive\n\n').catch(() => {})
  }, keepAliveMs)
  try {
    await write(':open\n\n')
    await run({
      send: event => write(event instanceof Uint8Array ? event : formatEvent(event)),
      comment: text => write(formatComment(text))
    }, sink.signal)
  } finally {
    clearInterval(keepAlive)
  }
}

/** Events as the bytes of such a stream: the same bytes may be sent to many. */
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

function formatComment(text: string): string {
  return `${lines(':', text)}\n`
}

function lines(prefix: string, text: string): string {
  if (!lineEnds.test(text)) return `${prefix}${text}\n`
  return text.split(lineEnds).map(line => `${prefix}${line}\n`).join('')
}

/** A line break in a name or an id would begin another field, and a NUL makes a client ignore the id. */
function oneLine(text: string): string {
  if (/[\r\n\0]/.test(text)) throw new Error('The name or id of an event holds a line break or NUL')
  return text
}
