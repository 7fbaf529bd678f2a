import { streamHeaders } from '../core/reply.js'
import type { Reply } from '../core/route.js'
import { defaultKeepAliveMs, keptAlive } from './kept-alive.js'

/** One event of a stream. Text is sent as it is, other data as JSON. */
export interface ServerEvent {
  event?: string
  data: unknown
  /** Id that the client sends as `Last-Event-ID` when it reconnects. */
  id?: string | number
}

/** Sends events to one client. */
export interface Events {
  /** Sends an event, or bytes from `encodeEvents`. Resolves when more may be sent; rejects when the client is gone. */
  send(event: ServerEvent | Uint8Array): Promise<void>
  comment(text: string): Promise<void>
}

/**
 * Returns a reply of server-sent events (WHATWG HTML §9.2). It opens at once, before the first event, and sends
 * `:keep-alive` while there are no events. The stream ends when `run` ends. The signal is aborted when the client goes
 * away or the server stops.
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
    run: sink =>
      keptAlive(sink, { text: ':keep-alive\n\n', everyMs: keepAliveMs }, async write => {
        await write(':open\n\n')
        await run(
          {
            send: event => write(event instanceof Uint8Array ? event : formatEvent(event)),
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
