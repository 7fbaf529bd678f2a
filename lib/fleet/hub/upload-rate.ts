/* Limits how fast the hub sends archives, to all nodes together. */
import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedOf, type Clock } from '../../base/clock.js'
import type { Reply, Sink } from '../../http/core/route.js'

/** Limits the rate of replies. */
export interface UploadRate {
  /** Returns a reply whose body is sent no faster than the limit allows, together with all others. */
  limited(reply: Reply): Reply
}

const bytesPerMegabyte = 1024 * 1024

/** Creates a limit. `megabytesPerSecond` is read again at each piece; 0 means none. */
export function createUploadRate({
  megabytesPerSecond,
  clock,
  wait = sleep
}: {
  megabytesPerSecond(): number
  clock: Clock
  wait?: (ms: number, value: undefined, options: { signal: AbortSignal }) => Promise<unknown>
}): UploadRate {
  /** When the bytes that were taken so far are due. */
  let dueMs = 0

  async function take(bytes: number, signal: AbortSignal): Promise<void> {
    const rate = megabytesPerSecond() * bytesPerMegabyte
    if (rate === 0) return
    const nowMs = elapsedOf(clock)
    dueMs = Math.max(dueMs, nowMs) + (bytes / rate) * 1000
    const aheadMs = dueMs - nowMs
    if (aheadMs > 1) await wait(aheadMs, undefined, { signal })
  }

  function slowed(sink: Sink): Sink {
    return {
      signal: sink.signal,
      sendHead: () => sink.sendHead(),
      async write(chunk) {
        await take(chunk.length, sink.signal)
        await sink.write(chunk)
      }
    }
  }

  function limited(reply: Reply): Reply {
    if (reply.kind === 'stream') return { ...reply, run: sink => reply.run(slowed(sink)) }
    if (reply.kind === 'file') return { kind: 'file', open: async request => limited(await reply.open(request)) }
    return reply
  }

  return { limited }
}
