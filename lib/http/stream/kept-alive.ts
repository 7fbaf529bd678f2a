import type { Sink } from '../core/route.js'

/** How a stream shows that it is alive while there is nothing to write. */
export interface KeepAlive {
  /** What is written then. Readers skip it. */
  text: string
  everyMs: number
}

/** Interval of keep-alive texts (§8). */
export const defaultKeepAliveMs = 15_000

/** What a stream writes at a time: a chunk, or several that nothing may be written between. */
export type Chunks = string | Uint8Array | AsyncIterable<string>

/** Runs a stream. A client that does not read gets no keep-alive texts; they would only pile up. */
export async function keptAlive(
  sink: Sink,
  { text, everyMs }: KeepAlive,
  run: (write: (chunks: Chunks) => Promise<void>) => Promise<void>
): Promise<void> {
  let waiting = 0
  async function write(chunks: Chunks): Promise<void> {
    waiting++
    try {
      if (typeof chunks === 'string' || chunks instanceof Uint8Array) await sink.write(chunks)
      else for await (const chunk of chunks) await sink.write(chunk)
    } finally {
      waiting--
    }
  }
  const timer = setInterval(() => {
    if (waiting === 0) write(text).catch(() => {})
  }, everyMs)
  try {
    await run(write)
  } finally {
    clearInterval(timer)
  }
}
