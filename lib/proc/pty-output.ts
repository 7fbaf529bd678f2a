/*
 * What a program prints on a pseudo-terminal, to its last byte.
 *
 * Reading through a Node stream loses some of it at the program's end: the terminal gives 4 KiB a read, libuv takes a
 * read that does not fill its buffer for the last one once the other end is closed, and what waits in the stream while
 * it is paused is dropped with it. node-pty breaks off after 200 ms anyway. So the stream's `destroy`, which all of
 * these come to, is held back here: first what is in the stream is handed out, then what the kernel still has is read,
 * in turn with `pause` and `resume`, and only then the descriptor is closed.
 *
 * A daemon that the program left behind may hold the terminal open for years: then silence is the end, or a number of
 * looks.
 *
 * The bytes come through the stream as latin1, one character each, because an encoding cannot be taken off a stream
 * again; they are decoded here, so that a character may be cut anywhere, also between the stream and the kernel.
 */
import { readSync } from 'node:fs'
import { StringDecoder } from 'node:string_decoder'

/** node-pty's stream: a `tty.ReadStream`. */
export type PtyStream = NodeJS.ReadableStream & { destroyed: boolean; destroy(error?: Error | null): unknown }

export interface PtyOutput {
  onData(take: (text: string) => void): void
  pause(): void
  resume(): void
  /** What is not read yet is not wanted any more. */
  giveUp(): void
}

const readBytes = 64 * 1024
/** Reads of one turn of the event loop. */
const maxReads = 64
/** After the end: silence that long means that all is read. The kernel hands on what was written with a delay. */
const drainIdleMs = 100
/** After the end: at most so many times that silence is waited for, however busily a daemon writes on. */
const maxDrainWaits = 16

export function readPty({ fd, stream }: { fd: number; stream: PtyStream }): PtyOutput {
  const takers: Array<(text: string) => void> = []
  const decoder = new StringDecoder('utf8')
  const destroy = stream.destroy.bind(stream)
  /** `ending`: the stream wants to close, and must wait. */
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

  /** Goes on until all is read, a pause, or silence. */
  function drain(): void {
    clearTimeout(timer)
    // Of a stream that flows, this hands out what it holds.
    while (!isPaused && stream.read() !== null);
    const outcome = readRest()
    if (state !== 'ending' || outcome === 'paused') return
    if (outcome === 'end' || (outcome === 'silence' && waits > 0) || waits > maxDrainWaits) return over()
    waits++
    timer = setTimeout(drain, drainIdleMs)
  }

  /** What the kernel has. `end`: nobody can write to it any more; `some`: somebody has, a moment ago. */
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

/** How many bytes there were; `end`: there will be no more. The descriptor does not block. */
function tryToRead(fd: number, into: Buffer): number | 'end' {
  try {
    return readSync(fd, into) || 'end'
  } catch (error) {
    // EIO: the other end is closed.
    return (error as NodeJS.ErrnoException).code === 'EAGAIN' ? 0 : 'end'
  }
}
