import type { ServerResponse } from 'node:http'
import { Refusal } from '../../base/refusal.js'
import type { Slices } from '../../base/slices.js'
import type { Sink } from './route.js'

/** What a sink needs: the response, and the signal that its client is gone. */
export interface SinkOptions {
  response: ServerResponse
  signal: AbortSignal
  /** Shared by all streams of the server. */
  slices: Slices
  writeHead(): void
}

/** Returns the refusal that a handler gets when the client is gone. No client ever sees it. */
export function clientGone(): Refusal {
  return new Refusal('invalid', 'aborted', 'The reply is incomplete: the client closed the connection')
}

/** Creates a sink for a response. The first write sends the head, and a full buffer makes the writer wait. */
export function createSink({ response, signal, slices, writeHead }: SinkOptions): Sink {
  let draining: Promise<void> | undefined

  function drained(): Promise<void> {
    draining ??= new Promise<void>((resolve, reject) => {
      const settle = (): void => {
        draining = undefined
        response.off('drain', settle)
        signal.removeEventListener('abort', settle)
        if (signal.aborted) reject(signal.reason as Error)
        else resolve()
      }
      response.on('drain', settle)
      signal.addEventListener('abort', settle)
    })
    return draining
  }

  return {
    signal,
    sendHead() {
      if (signal.aborted || response.headersSent) return
      writeHead()
      response.flushHeaders()
    },
    async write(chunk) {
      if (signal.aborted) throw signal.reason
      const turn = slices.turn()
      if (turn !== undefined) {
        await turn
        if (signal.aborted) throw signal.reason
      }
      if (!response.headersSent) writeHead()
      if (!response.write(chunk)) await drained()
    }
  }
}
