/*
 * Event streams over fetch, because EventSource cannot send headers. A stream that is silent for longer than the
 * keep-alives of the server allow is considered dead and is opened again.
 */
import { pauseMs } from './client.js'
import { createEventReader, type ServerEvent } from '../shared/api.js'

/** The server sends a comment every 15 s (§6.3). After three missed ones the connection is considered lost. */
const silenceMs = 45_000

export interface FollowOptions {
  /** Opens the stream after an event id. Rejects with a final error (refused) or a temporary one (network). */
  open: (lastEventId: string, signal: AbortSignal) => Promise<Response>
  /** Handles an event. Returning `last` ends the stream. */
  onEvent: (event: ServerEvent) => 'more' | 'last'
  /** Called when the connection is opened or lost. */
  onConnection?: (state: 'open' | 'lost') => void
  /** Whether an error of `open` is final. */
  isFinal: (error: unknown) => boolean
  signal: AbortSignal
}

/** Follows a stream over several connections until its last event. No event is lost or repeated. */
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
      const reader = createEventReader({
        onEvent(event) {
          lastId = event.id
          attempt = 0
          if (!isOver) isOver = onEvent(event) === 'last'
        }
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

/** Reads one stream to its end. */
export async function readEvents(
  response: Response,
  onEvent: (event: ServerEvent) => void,
  onComment?: (text: string) => void
): Promise<void> {
  const reader = createEventReader({ onEvent, onComment })
  await eachText(response, text => {
    reader.push(text)
    return 'more'
  })
}

/** Maximum time for handling available events before the page can draw. */
const burstMs = 12

/** Passes the text of the body on as it arrives, decoded as UTF-8. */
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

/** Waits for a new task, so that the page can draw. A resolved promise would continue before that. */
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
