import { Refusal } from '../base/refusal.js'
import { createLineSplitter } from '../base/lines.js'

/** Of one line of a stream: output lines come in pieces of 64 KiB, which JSON may escape to six times that. */
const maxStreamLineBytes = 1024 * 1024

/** One event of an event stream (HTML Living Standard §9.2). */
export interface StreamEvent {
  event: string
  data: string
  /** The last one seen, as the standard has it. */
  id: string | undefined
}

/** The lines of a body, as they come. Ends with the body; an error of the body is thrown unchanged. */
export async function* readLines(body: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let ready: string[] = []
  const splitter = createLineSplitter(line => void ready.push(line), maxStreamLineBytes)
  for await (const chunk of body) {
    splitter.push(chunk)
    const lines = ready
    ready = []
    yield* lines
  }
  splitter.end()
  yield* ready
}

/** The values of a body that is one JSON object a line. Refuses a line that is none. */
export async function* readNdjson(body: AsyncIterable<Buffer>): AsyncGenerator<Record<string, unknown>> {
  for await (const line of readLines(body)) if (line.trim() !== '') yield parseObject(line)
}

/**
 * The events of an event stream. Differences from the standard: a line ends with LF or CRLF, never with CR alone; an
 * event that the end of the stream cut off is dropped, as there.
 */
export async function* readEvents(body: AsyncIterable<Buffer>): AsyncGenerator<StreamEvent> {
  let event = ''
  let held: string[] = []
  let id: string | undefined
  for await (const line of readLines(body)) {
    if (line === '') {
      if (held.length > 0) yield { event: event || 'message', data: held.join('\n'), id }
      event = ''
      held = []
      continue
    }
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'event') event = value
    else if (field === 'data') held.push(value)
    else if (field === 'id' && !value.includes('\0')) id = value
  }
}

/** The object a line of a stream holds. */
export function parseObject(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // Refused below, like any other line that is no object.
  }
  throw new Refusal(
    'unavailable',
    'bad_stream',
    "The server's answer could not be read: a line of it is not a JSON object"
  )
}
