/*
 * The output of one session between a shell that prints and a client that comes and goes. Everything has a position:
 * the UTF-8 bytes printed before it since the session began.
 *
 *     0 … kept ………… acked ………… sent ………… end
 *         the oldest   drawn by   handed to  printed
 *         byte there   the client the socket
 *
 * Kept is what is not acknowledged, and at least the last `keptBytes`, for a client that has lost its screen. While
 * nobody is connected nothing can be acknowledged, and the shell is not held up: then `keptBytes` is all.
 */

export interface FlowLimits {
  /** Of output, for whoever connects again. */
  keptBytes: number
  /** Unacknowledged; above it the shell is paused. */
  windowBytes: number
  /** Of one `take`. */
  batchBytes: number
}

export const defaultFlowLimits: FlowLimits = {
  keptBytes: 256 * 1024, // decisions §6
  windowBytes: 1024 * 1024, // decisions §6
  batchBytes: 64 * 1024
}

export interface Flow {
  /** Whether the shell is to wait: more than `windowBytes` are printed and not acknowledged. */
  readonly isFull: boolean
  /** The position of the next byte that is taken. */
  readonly sent: number
  /** What the shell has printed; `isHeard`: whether a client is there to take it. */
  push(text: string, isHeard: boolean): void
  /** The next text to be sent, at most about `batchBytes`; empty: there is none. */
  take(): string
  /** Up to here all is drawn. `ahead`: that position was never sent; nothing has changed. */
  ack(position: number): 'taken' | 'ahead'
  /**
   * Goes on from `position`, up to which the client has everything, or, without one, from the last `ack`: as near as
   * what is kept allows. Gives where that is.
   */
  rewind(position?: number): number
}

/** Smaller pieces are joined up to this: a program that prints byte by byte must not cost an object for each. */
const joinedBytes = 4 * 1024

interface Chunk {
  at: number
  bytes: number
  text: string
}

export function createFlow(limits: FlowLimits = defaultFlowLimits): Flow {
  const { keptBytes, windowBytes, batchBytes } = limits
  let chunks: Chunk[] = []
  /** Index of the chunk that is taken next. */
  let next = 0
  let end = 0
  let acked = 0

  const sent = (): number => chunks[next]?.at ?? end

  /** Drops whole chunks that end at or before `position`. */
  function dropUntil(position: number): void {
    let count = 0
    for (let chunk = chunks[0]; chunk !== undefined && chunk.at + chunk.bytes <= position; chunk = chunks[count]) count++
    if (count === 0) return
    chunks = chunks.slice(count)
    next = Math.max(0, next - count)
  }

  /** Makes `position` the beginning of a chunk, or the nearest place before it where a character begins. */
  function cutAt(position: number): number {
    const i = chunks.findIndex(chunk => position < chunk.at + chunk.bytes)
    const chunk = chunks[i]
    if (chunk === undefined) return chunks.length
    if (position <= chunk.at) return i
    const bytes = Buffer.from(chunk.text)
    let cut = position - chunk.at
    while (cut > 0 && ((bytes[cut] as number) & 0xc0) === 0x80) cut--
    if (cut === 0) return i
    const parts = [bytes.subarray(0, cut), bytes.subarray(cut)]
    let { at } = chunk
    chunks.splice(i, 1, ...parts.map(part => ({ at: (at += part.length) - part.length, bytes: part.length, text: part.toString() })))
    if (next > i) next++
    return i + 1
  }

  function add(text: string, bytes: number): void {
    const last = chunks.at(-1)
    const isLastSent = next === chunks.length
    if (last !== undefined && !isLastSent && last.bytes + bytes <= joinedBytes) {
      last.text += text
      last.bytes += bytes
    } else {
      if (isLastSent) joinLastTwo()
      chunks.push({ at: end, bytes, text })
    }
    end += bytes
  }

  function joinLastTwo(): void {
    const [one, two] = chunks.slice(-2)
    if (one === undefined || two === undefined || one.bytes + two.bytes > joinedBytes) return
    one.text += two.text
    one.bytes += two.bytes
    chunks.pop()
    next--
  }

  /** What is acknowledged and older than `keptBytes`. */
  function trim(): void {
    dropUntil(Math.min(end - keptBytes, acked))
  }

  return {
    get isFull() {
      return end - acked > windowBytes
    },
    get sent() {
      return sent()
    },
    push(text, isHeard) {
      const bytes = Buffer.byteLength(text)
      if (bytes === 0) return
      add(text, bytes)
      if (isHeard) return trim()
      // What goes now is lost: to the byte, so that the promise is kept and no more.
      cutAt(end - keptBytes)
      dropUntil(end - keptBytes)
      acked = Math.max(acked, chunks[0]?.at ?? end)
    },
    take() {
      let bytes = 0
      const texts: string[] = []
      for (let chunk = chunks[next]; chunk !== undefined; chunk = chunks[next]) {
        if (bytes > 0 && bytes + chunk.bytes > batchBytes) break
        texts.push(chunk.text)
        bytes += chunk.bytes
        next++
      }
      return texts.join('')
    },
    ack(position) {
      if (position > sent()) return 'ahead'
      if (position > acked) {
        acked = position
        trim()
      }
      return 'taken'
    },
    rewind(position = acked) {
      next = cutAt(Math.min(position, end))
      acked = Math.max(acked, sent())
      return sent()
    }
  }
}
