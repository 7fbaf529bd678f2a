import type { Reply } from './route.js'
import { streamHeaders } from './reply.js'

/** JSON values as the lines of such a reply: the same bytes may be written to many. */
export function encodeLines(values: readonly unknown[]): Buffer {
  return Buffer.from(values.map(lineOf).join(''))
}

/**
 * A reply of one JSON value a line (§6.2); bytes are lines that `encodeLines` made. `run` awaits each `write`, which holds it back while the client is slow and
 * rejects once it is gone; the signal is aborted then, too. `isBegun`: what is answered has begun, so the head goes first.
 */
export function ndjson(
  run: (write: (value: unknown) => Promise<void>, signal: AbortSignal) => Promise<void>,
  { status = 200, headers = {}, isBegun = false }: { status?: number; headers?: Record<string, string>; isBegun?: boolean } = {}
): Reply {
  return {
    kind: 'stream',
    status,
    headers: { ...streamHeaders, 'content-type': 'application/x-ndjson', ...headers },
    run(sink) {
      if (isBegun) sink.sendHead()
      return run(value => sink.write(value instanceof Uint8Array ? value : lineOf(value)), sink.signal)
    }
  }
}

function lineOf(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}
