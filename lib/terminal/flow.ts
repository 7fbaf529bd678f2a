/*
 * The output of one session, between a shell that prints and a client that may disconnect and reconnect. Each byte has
 * a position: the number of UTF-8 bytes that the session printed before it.
 *
 *     0 … kept ………… acked ………… sent ………… end
 *         oldest    drawn by   handed to  printed
 *         byte kept the client the socket
 *
 * The flow keeps all bytes that are not acknowledged, and at least the last `keptBytes`, for a client that has lost
 * its screen. The modes that the dropped output has set are kept, too. While no client is connected, nothing can be
 * acknowledged and the shell is not paused. Then only `keptBytes` are kept.
 */
import { createTerminalModes } from './modes.js'

/** Limits of a flow. */
export interface FlowLimits {
  /** Bytes of output that are kept for a client that reconnects. */
  keptBytes: number
  /** Maximum number of unacknowledged bytes. Above it the shell is paused. */
  windowBytes: number
  /** Approximate maximum size of the text that one `take` returns. */
  batchBytes: number
}

/** Default limits of a flow. */
export const defaultFlowLimits: FlowLimits = {
  keptBytes: 256 * 1024, // decisions §6
  windowBytes: 1024 * 1024, // decisions §6
  batchBytes: 64 * 1024
}

/** The buffered output of one session. */
export interface Flow {
  /** Whether the shell should pause: more than `windowBytes` are printed and not acknowledged. */
  readonly isFull: boolean
  /** Position of the next byte that `take` returns. */
  readonly sent: number
  /** If `take` returns the oldest kept byte next: the control sequences that set the modes of the terminal there. */
  readonly modes: string
  /** Adds what the shell has printed. `isHeard` says whether a client is connected. */
  push(text: string, isHeard: boolean): void
  /** Returns the next text to send, of about `batchBytes` at most. Empty if there is none. */
  take(): string
  /**
   * Acknowledges everything before `position`. `ahead` means that the position was never sent; then nothing changes.
   */
  ack(position: number): 'taken' | 'ahead'
  /**
   * Continues from `position`, up to which the client has everything; without it, from the last `ack`. If those bytes
   * are no longer kept, continues from the nearest kept position. Returns the position.
   */
  rewind(position?: number): number
}

/**
 * Small pieces are joined up to this size. A program that prints byte by byte must not cost one object for each byte.
 */
const joinedBytes = 4 * 1024

interface Chunk {
  at: number
  bytes: number
  text: string
}

/** Creates an empty flow. */
export function createFlow(limits: FlowLimits = defaultFlowLimits): Flow {
  const { keptBytes, windowBytes, batchBytes } = limits
  const modes = createTerminalModes()
  let chunks: Chunk[] = []
  /** Index of the chunk that `take` returns next. */
  let next = 0
  let end = 0
  let acked = 0

  const sent = (): number => chunks[next]?.at ?? end

  /** Drops whole chunks that end at or before `position`. */
  function dropUntil(position: number): void {
    let count = 0
    for (let chunk = chunks[0]; chunk !== undefined && chunk.at + chunk.bytes <= position; chunk = chunks[count])
      count++
    if (count === 0) return
    for (const { text } of chunks.slice(0, count)) modes.read(text)
    chunks = chunks.slice(count)
    next = Math.max(0, next - count)
  }

  /** Splits chunks so that one begins at `position`, or at the nearest character start before it. Returns its index. */
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
    chunks.splice(
      i,
      1,
      ...parts.map(part => ({ at: (at += part.length) - part.length, bytes: part.length, text: part.toString() }))
    )
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

  /** Drops what is acknowledged and older than `keptBytes`. */
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
    get modes() {
      return next === 0 ? modes.sequences() : ''
    },
    push(text, isHeard) {
      const bytes = Buffer.byteLength(text)
      if (bytes === 0) return
      add(text, bytes)
      if (isHeard) return trim()
      // Exactly `keptBytes` are kept, because what is dropped here is lost.
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
