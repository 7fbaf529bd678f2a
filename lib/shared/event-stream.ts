import { createLineReader } from './lines.js'

/*
 * A parser of server-sent events (WHATWG HTML §9.2.6). Its input is text that may be split anywhere; its output is
 * whole events. An event that is not ended by an empty line is dropped.
 *
 * Differences: `retry` is ignored, because the clients decide themselves how long they wait.
 */

/** An event of a stream. */
export interface ServerEvent {
  /** `message` if the stream does not name the event. */
  event: string
  data: string
  /** The last id of the stream; empty before the first one. */
  id: string
}

/** Receives the text of a stream. */
export interface EventReader {
  push(text: string): void
}

/** The callbacks and limits of a reader. */
export interface EventReaderOptions {
  onEvent(event: ServerEvent): void
  /** Called with the text of each comment. */
  onComment?: ((text: string) => void) | undefined
  /** Maximum length of a line in UTF-16 code units. */
  maxLineLength?: number
}

/** Creates a reader of an event stream. */
export function createEventReader({ onEvent, onComment, maxLineLength }: EventReaderOptions): EventReader {
  let event = ''
  let data: string[] = []
  let id = ''

  function dispatch(): void {
    if (data.length > 0) onEvent({ event: event || 'message', data: data.join('\n'), id })
    event = ''
    data = []
  }

  function take(line: string): void {
    if (line === '') return dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) return onComment?.(line.slice(1))
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'event') event = value
    else if (field === 'data') data.push(value)
    else if (field === 'id' && !value.includes('\0')) id = value
  }

  const { push } = createLineReader(take, {
    isEventStream: true,
    ...(maxLineLength === undefined ? {} : { maxLength: maxLineLength })
  })
  return { push }
}
