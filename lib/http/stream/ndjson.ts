import type { Reply } from '../core/route.js'
import { streamHeaders } from '../core/reply.js'
import { defaultKeepAliveMs, keptAlive } from './kept-alive.js'

/** Encodes JSON values as lines of such a reply, so that the same bytes can be written to many clients. */
export function encodeLines(values: readonly unknown[]): Buffer {
  return Buffer.from(values.map(lineOf).join(''))
}

/**
 * Returns a reply with one JSON value per line (§6.2). Bytes passed to `write` are lines from `encodeLines`. `run`
 * awaits each `write`, which waits while the client is slow and rejects when it is gone; then the signal is aborted
 * too. With `isBegun` the head is sent first. With `lasting` the stream continues until somebody stops it: it sends an
 * empty line while there is nothing to write, which readers skip.
 */
export function ndjson(
  run: (write: (value: unknown) => Promise<void>, signal: AbortSignal) => Promise<void>,
  {
    status = 200,
    headers = {},
    isBegun = false,
    lasting = false,
    heldBytes,
    keepAliveMs = defaultKeepAliveMs
  }: {
    status?: number
    headers?: Record<string, string>
    isBegun?: boolean
    lasting?: boolean
    heldBytes?: number
    keepAliveMs?: number
  } = {}
): Reply {
  return {
    kind: 'stream',
    status,
    headers: { ...streamHeaders, 'content-type': 'application/x-ndjson', ...headers },
    ...(lasting && { lasting }),
    ...(heldBytes !== undefined && { heldBytes }),
    run(sink) {
      if (isBegun) sink.sendHead()
      if (!lasting) return run(value => sink.write(chunkOf(value)), sink.signal)
      return keptAlive(sink, { text: '\n', everyMs: keepAliveMs }, write =>
        run(value => write(chunkOf(value)), sink.signal)
      )
    }
  }
}

/** Returns the bytes or the line of a value. */
function chunkOf(value: unknown): string | Uint8Array {
  return value instanceof Uint8Array ? value : lineOf(value)
}

function lineOf(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}
