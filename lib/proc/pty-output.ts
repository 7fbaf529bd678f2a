/*
 * Reads the output of a program on a pseudo-terminal, to its last byte.
 *
 * Reading through a Node stream loses some output at the end of the program. The terminal returns 4 KiB per read. Once
 * the other end is closed, libuv takes a read that does not fill its buffer for the last one. Data that is queued in
 * the stream while it is paused is then dropped. node-pty stops after 200 ms anyway. All of these call the stream's
 * `destroy`, so `destroy` is delayed here: first the data in the stream is passed on, then the rest is read from the
 * kernel, respecting `pause` and `resume`, and only then the descriptor is closed.
 *
 * A daemon that the program left behind may keep the terminal open for years. Then silence is the end, or a maximum
 * number of waits.
 *
 * The stream decodes its bytes as latin1, one character each, because an encoding cannot be removed from a stream. They
 * are decoded as UTF-8 here, so that a character may be split anywhere, even between the stream and the kernel.
 */
import { readSync } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'
import { hasCode } from '../base/system-error.js'

/** node-pty's stream: a `tty.ReadStream`. */
export type PtyStream = NodeJS.ReadableStream & { destroyed: boolean; destroy(error?: Error | null): unknown }

/** The output of a pseudo-terminal. */
export interface PtyOutput {
  onData(take: (text: string) => void): void
  pause(): void
  resume(): void
  /** Drops the output that is not read yet. */
  giveUp(): void
}

const readBytes = 64 * 1024
/** Maximum number of reads in one turn of the event loop. */
const maxReads = 64
/**
 * After the end, silence of this length means that everything was read. The kernel passes on written data with a delay.
 */
const drainIdleMs = 100
/** After the end, the maximum number of waits for silence, however much a daemon still writes. */
const maxDrainWaits = 16

/** Reads a terminal through its stream, and at the end directly from its descriptor. */
export function readPty({ fd, stream }: { fd: number; stream: PtyStream }): PtyOutput {
  const takers: Array<(text: string) => void> = []
  const decoder = new StringDecoder('utf8')
  const destroy = stream.destroy.bind(stream)
  /** `ending` means that the stream wants to close, and must wait. */
  let state: 'reading' | 'ending' | 'over' = 'reading'
  let isPaused = false
  let waits = 0
  let timer: NodeJS.Timeout | undefined

  function hand(text: string): void {
    if (text !== '') for (const take of takers) take(text)
  }

  function over(error?: Error | null): void {
    if (state === 'over') return
    state = 'over'
    clearTimeout(timer)
    hand(decoder.end())
    destroy(error)
  }

  /** Reads until everything is read, a pause begins, or there is silence. */
  function drain(): void {
    clearTimeout(timer)
    // For a flowing stream, `read` emits the data that it holds.
    while (!isPaused && stream.read() !== null);
    const outcome = readRest()
    if (state !== 'ending' || outcome === 'paused') return
    if (outcome === 'end' || (outcome === 'silence' && waits > 0) || waits > maxDrainWaits) return over()
    waits++
    timer = setTimeout(drain, drainIdleMs)
  }

  /** Reads from the kernel. `end` means that nobody can write any more, `some` that there was data a moment ago. */
  function readRest(): 'end' | 'silence' | 'some' | 'paused' {
    const bytes = Buffer.allocUnsafe(readBytes)
    for (let reads = 0; reads < maxReads; reads++) {
      if (isPaused) return 'paused'
      const count = tryToRead(fd, bytes)
      if (count === 'end') return 'end'
      if (count === 0) return reads === 0 ? 'silence' : 'some'
      hand(decoder.write(bytes.subarray(0, count)))
    }
    return 'some'
  }

  stream.setEncoding('latin1')
  stream.on('data', (text: string) => hand(decoder.write(Buffer.from(text, 'latin1'))))
  stream.destroy = () => {
    if (state === 'reading') {
      state = 'ending'
      drain()
    }
    return stream
  }

  return {
    onData: take => void takers.push(take),
    pause() {
      isPaused = true
      stream.pause()
    },
    resume() {
      isPaused = false
      stream.resume()
      if (state === 'ending') drain()
    },
    giveUp() {
      takers.length = 0
      isPaused = false
      stream.resume()
      if (state === 'ending') over()
      else stream.destroy = error => over(error)
    }
  }
}

/** Returns the number of bytes that were read, or `end` if there will be no more. The descriptor does not block. */
function tryToRead(fd: number, into: Buffer): number | 'end' {
  try {
    return readSync(fd, into) || 'end'
  } catch (error) {
    // EIO: the other end is closed.
    return hasCode(error, 'EAGAIN') ? 0 : 'end'
  }
}
