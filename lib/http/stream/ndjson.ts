import type { Reply } from '../core/route.js'
import { streamHeaders } from '../core/reply.js'

/** Encodes JSON values as lines of such a reply, so that the same bytes can be written to many clients. */
export function encodeLines(values: readonly unknown[]): Buffer {
  return Buffer.from(values.map(lineOf).join(''))
}

/**
 * Returns a reply with one JSON value per line (§6.2). Bytes passed to `write` are lines from `encodeLines`. `run`
 * awaits each `write`, which waits while the client is slow and rejects when it is gone; then the signal is aborted
 * too. With `isBegun` the head is sent first.
 */
export function ndjson(
  run: (write: (value: unknown) => Promise<void>, signal: AbortSignal) => Promise<void>,
  {
    status = 200,
    headers = {},
    isBegun = false
  }: { status?: number; headers?: Record<string, string>; isBegun?: boolean } = {}
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
