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
export type EventReader = ReturnType<typeof createEventReader>

/** The callbacks and limits of a reader. */
export interface EventReaderOptions {
  onEvent(event: ServerEvent): void
  /** Called with the text of each comment. */
  onComment?: ((text: string) => void) | undefined
  /** Maximum length of a line in UTF-16 code units. */
  maxLineLength?: number
}

/** Creates a reader of an event stream. */
export function createEventReader({ onEvent, onComment, maxLineLength }: EventReaderOptions) {
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

/** Takes text that may be split anywhere, and calls back with each whole line. */
export interface LineReader {
  push(text: string): void
  /** Passes on the text after the last line break, if any. */
  end(): void
}

/** How lines are split. */
export interface LineReaderOptions {
  /** A lone `\r` also ends a line, as in an event stream. */
  isEventStream?: boolean
  /**
   * Maximum length of a line in memory, in UTF-16 code units. A longer one is passed on in pieces of about that length.
   */
  maxLength?: number
}

/** Creates a reader of lines that end with `\n` or `\r\n`. Fragments of a line are kept in an array and joined once. */
export function createLineReader(
  onLine: (line: string) => void,
  { isEventStream = false, maxLength = Number.POSITIVE_INFINITY }: LineReaderOptions = {}
): LineReader {
  const lineBreak = isEventStream ? /\r\n|\n|\r/g : /\r?\n/g
  let held: string[] = []
  let heldLength = 0
  let isReturnHeld = false

  function emit(last: string): void {
    held.push(last)
    const line = held.join('')
    held = []
    heldLength = 0
    onLine(line)
  }

  function hold(text: string): void {
    held.push(text)
    heldLength += text.length
    if (heldLength > maxLength) emit('')
  }

  return {
    push(chunk) {
      if (chunk === '') return
      // A `\r` at the end of a chunk may be half of a line break: it is kept until the next chunk.
      const text = isReturnHeld ? `\r${chunk}` : chunk
      isReturnHeld = text.endsWith('\r')
      const whole = isReturnHeld ? text.slice(0, -1) : text
      let from = 0
      for (const found of whole.matchAll(lineBreak)) {
        emit(whole.slice(from, found.index))
        from = found.index + found[0].length
      }
      if (from < whole.length) hold(whole.slice(from))
    },
    end() {
      if (isReturnHeld && !isEventStream) held.push('\r')
      isReturnHeld = false
      if (held.length > 0) emit('')
    }
  }
}

/** Creates a reader that passes the value of each JSON line to `onValue`. Skips empty lines. Throws a SyntaxError. */
export function createNdjsonReader(onValue: (value: unknown) => void): LineReader {
  return createLineReader(line => {
    if (line.trim() !== '') onValue(JSON.parse(line))
  })
}
