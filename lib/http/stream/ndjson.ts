import type { Reply, Sink } from '../core/route.js'
import { streamHeaders } from '../core/reply.js'
import { defaultKeepAliveMs } from './sse.js'

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
    keepAliveMs = defaultKeepAliveMs
  }: {
    status?: number
    headers?: Record<string, string>
    isBegun?: boolean
    lasting?: boolean
    keepAliveMs?: number
  } = {}
): Reply {
  return {
    kind: 'stream',
    status,
    headers: { ...streamHeaders, 'content-type': 'application/x-ndjson', ...headers },
    ...(lasting && { lasting }),
    run(sink) {
      if (isBegun) sink.sendHead()
      const write = (value: unknown): Promise<void> => sink.write(value instanceof Uint8Array ? value : lineOf(value))
      return lasting ? keptAlive(sink, run, keepAliveMs) : run(write, sink.signal)
    }
  }
}

/** Runs a lasting stream. A client that does not read gets no empty lines; they would only pile up. */
async function keptAlive(
  sink: Sink,
  run: (write: (value: unknown) => Promise<void>, signal: AbortSignal) => Promise<void>,
  keepAliveMs: number
): Promise<void> {
  let waiting = 0
  async function write(chunk: string | Uint8Array): Promise<void> {
    waiting++
    try {
      await sink.write(chunk)
    } finally {
      waiting--
    }
  }
  const timer = setInterval(() => {
    if (waiting === 0) write('\n').catch(() => {})
  }, keepAliveMs)
  try {
    await run(value => write(value instanceof Uint8Array ? value : lineOf(value)), sink.signal)
  } finally {
    clearInterval(timer)
  }
}

function lineOf(value: unknown): string {
  return `${JSON.stringify(value)}\n`
}
