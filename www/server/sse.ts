import { pauseMs } from './client.js'
import { createLineReader } from './lines.js'

/*
 * Server-sent events (WHATWG HTML §9.2) over fetch, because EventSource cannot send the bearer as a header.
 *
 * Differences: an event without data is dropped like there; `retry` is ignored, the pauses are our own; a stream that
 * stays silent for longer than the server's keep-alives allow is taken for dead and opened again.
 */

export interface ServerEvent {
  /** `message` where the stream names none. */
  event: string
  data: string
  /** The last id seen, kept from event to event. */
  id: string
}

export interface EventReader {
  push(text: string): void
}

/**
 * The parser of §9.2.6: text in, cut anywhere; whole events out, and comments to those who ask. What is not ended by an
 * empty line is dropped.
 */
export function createEventReader(
  onEvent: (event: ServerEvent) => void, onComment?: (text: string) => void
): EventReader {
  let event = ''
  let data: string[] = []
  let id = ''

  const dispatch = (): void => {
    if (data.length > 0) onEvent({ event: event === '' ? 'message' : event, data: data.join('\n'), id })
    event = ''
    data = []
  }
  const lines = createLineReader(
    line => {
      if (line === '') return dispatch()
      const colon = line.indexOf(':')
      if (colon === 0) return onComment?.(line.slice(1))
      const field = colon === -1 ? line : line.slice(0, colon)
      const rest = colon === -1 ? '' : line.slice(colon + 1)
      const value = rest.startsWith(' ') ? rest.slice(1) : rest
      if (field === 'event') event = value
      else if (field === 'data') data.push(value)
      else if (field === 'id' && !value.includes('\u0000')) id = value
    },
    { eventStream: true }
  )
  return { push: lines.push }
}

/** The server sends a comment every 15 s (§6.3); three missed ones mean that nobody is there any more. */
const silenceMs = 45_000

export interface FollowOptions {
  /** Opens the stream behind the id; rejects with a final error (refused) or a passing one (network). */
  open: (lastEventId: string, signal: AbortSignal) => Promise<Response>
  /** `last` from the handler ends it all. */
  onEvent: (event: ServerEvent) => 'more' | 'last'
  /** Whether the connection stands, each time that changes. */
  onConnection?: (state: 'open' | 'lost') => void
  /** Whether an error of `open` is an answer rather than a lost connection. */
  isFinal: (error: unknown) => boolean
  signal: AbortSignal
}

/** Follows a stream until its last event, over as many connections as it takes: nothing lost, nothing twice. */
export async function followEvents({ open, onEvent, onConnection, isFinal, signal }: FollowOptions): Promise<void> {
  let lastId = ''
  let attempt = 0
  while (!signal.aborted) {
    const connection = new AbortController()
    const cut = (): void => connection.abort()
    signal.addEventListener('abort', cut)
    let timer = setTimeout(cut, silenceMs)
    try {
      const response = await open(lastId, connection.signal)
      onConnection?.('open')
      let isOver = false
      const reader = createEventReader(event => {
        lastId = event.id
        attempt = 0
        if (!isOver) isOver = onEvent(event) === 'last'
      })
      await eachText(response, text => {
        clearTimeout(timer)
        timer = setTimeout(cut, silenceMs)
        reader.push(text)
        return isOver ? 'last' : 'more'
      })
      if (isOver) return
    } catch (error) {
      if (signal.aborted) return
      if (isFinal(error)) throw error
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', cut)
    }
    if (signal.aborted) return
    onConnection?.('lost')
    await wait(pauseMs(attempt++, Math.random), signal)
  }
}

/** Reads one stream to its end, whatever becomes of it. */
export async function readEvents(
  response: Response, onEvent: (event: ServerEvent) => void, onComment?: (text: string) => void
): Promise<void> {
  const reader = createEventReader(onEvent, onComment)
  await eachText(response, text => {
    reader.push(text)
    return 'more'
  })
}

/** Of a burst that is there already, so much at a time; then the page may draw. */
const burstMs = 12

/** The body's text as it comes, decoded as UTF-8 over the cuts. */
async function eachText(response: Response, onText: (text: string) => 'more' | 'last'): Promise<void> {
  const reader = response.body?.getReader()
  if (reader === undefined) return
  const decoder = new TextDecoder()
  for (let sinceMs = performance.now(); ; ) {
    const { done, value } = await reader.read()
    if (done) return
    if (onText(decoder.decode(value, { stream: true })) === 'last') return reader.cancel()
    if (performance.now() - sinceMs < burstMs) continue
    await nextTask()
    sinceMs = performance.now()
  }
}

/** What has been read resolves at once, before the page can draw; a message is a task of its own. */
function nextTask(): Promise<void> {
  return new Promise(resolve => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      port1.close()
      resolve()
    }
    port2.postMessage(null)
  })
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const finish = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const timer = setTimeout(finish, ms)
    signal.addEventListener('abort', finish)
  })
}
