import type { Reply } from './route.js'
import { streamHeaders } from './reply.js'

/**
 * A reply of one JSON value a line (§6.2). `run` awaits each `write`, which holds it back while the client is slow and
 * rejects once it is gone; the signal is aborted then, too.
 */
export function ndjson(
  run: (write: (value: unknown) => Promise<void>, signal: AbortSignal) => Promise<void>,
  { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {}
): Reply {
  return {
    kind: 'stream',
    status,
    headers: { ...streamHeaders, 'content-type': 'application/x-ndjson', ...headers },
    run: sink => run(value => sink.write(`${JSON.stringify(value)}\n`), sink.signal)
  }
}
