import type { IncomingMessage } from 'node:http'
import type { Client } from './client.js'
import { defaultWithinMs } from './until.js'

export interface LiveEvent {
  event: string
  /** Empty if the event has no id. */
  id: string
  data: any
  atMs: number
}

/** An open event stream. */
export interface LiveStream {
  status: number
  headers: IncomingMessage['headers']
  events: LiveEvent[]
  comments: string[]
  /** Returns the next matching event and skips those before it. */
  next(wanted: string | ((event: LiveEvent) => boolean), withinMs?: number): Promise<LiveEvent>
  /** Resolves when an event arrives or the stream ends. */
  changed(): Promise<void>
  ended: Promise<void>
  close(): void
}

/** Opens an event stream. */
export async function openStream(
  client: Client,
  path: string,
  headers: Record<string, string> = {}
): Promise<LiveStream> {
  const reply = await client.open('GET', path, { headers })
  const events: LiveEvent[] = []
  const comments: string[] = []
  let text = ''
  let taken = 0
  let wake = (): void => {}
  reply.setEncoding('utf8')
  reply.on('data', (chunk: string) => {
    const blocks = (text + chunk).split('\n\n')
    text = blocks.pop() as string
    for (const block of blocks) {
      const event = /^event: (.*)$/m.exec(block)?.[1] ?? ''
      const id = /^id: (.*)$/m.exec(block)?.[1] ?? ''
      const data = /^data: (.*)$/m.exec(block)?.[1]
      if (data === undefined) comments.push(block)
      else events.push({ event, id, data: JSON.parse(data), atMs: performance.now() })
    }
    wake()
  })
  const ended = new Promise<void>(resolve => {
    reply.on('close', () => {
      resolve()
      wake()
    })
    reply.on('error', () => {})
  })
  return {
    status: reply.statusCode as number,
    headers: reply.headers,
    events,
    comments,
    ended,
    close: () => void reply.destroy(),
    changed: () => new Promise(resolve => void (wake = resolve)),
    async next(wanted, withinMs = defaultWithinMs) {
      const fits = typeof wanted === 'string' ? (event: LiveEvent) => event.event === wanted : wanted
      const untilMs = performance.now() + withinMs
      for (;;) {
        while (taken < events.length) {
          const event = events[taken++] as LiveEvent
          if (fits(event)) return event
        }
        const leftMs = untilMs - performance.now()
        if (leftMs <= 0) throw new Error(`No such event came: ${JSON.stringify(events.slice(-5))}`)
        await new Promise<void>(resolve => {
          const timer = setTimeout(resolve, leftMs)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
    }
  }
}
