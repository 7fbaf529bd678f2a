/*
 * The connection between svc and a helper process: a pair of sockets, descriptor 3 of the process. Each side sends one
 * frame: its length in four bytes, and its bytes. svc sends the job, structured as Node copies it. The process sends its
 * answer as JSON, with bytes in base64 (helper-answer.ts).
 *
 * It is not Node's own channel between processes: a process that somebody has taken over could send that one commands
 * for Node itself, a length of 4 GiB, and bytes that throw in the event loop of svc.
 */
import type { Readable, Writable } from 'node:stream'

/** The number of the connection among the descriptors of a helper process. */
export const channelDescriptor = 3

const headBytes = 4

/** Sends a frame. An error means that the other side has ended, which its reader notices. */
export function sendFrame(to: Writable, bytes: Uint8Array): void {
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(bytes.length)
  to.write(head)
  to.write(bytes)
}

/** A frame that is longer than the limit. */
export class FrameTooLong extends Error {}

/**
 * Resolves with the first frame; later bytes are not read. Resolves with null if the other side closes before. Rejects
 * with `FrameTooLong` as soon as its length is known, so that no more than the limit is ever in memory.
 */
export function readFrame(from: Readable, maxBytes: number): Promise<Buffer | null> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    let wanted = Infinity
    const end = (settle: () => void): void => {
      from.off('data', onData).pause()
      settle()
    }
    const onData = (chunk: Buffer): void => {
      chunks.push(chunk)
      length += chunk.length
      if (wanted === Infinity && length >= headBytes) {
        wanted = headBytes + Buffer.concat(chunks, headBytes).readUInt32BE()
        if (wanted - headBytes > maxBytes) return end(() => reject(new FrameTooLong(`${wanted - headBytes} bytes`)))
      }
      if (length >= wanted) end(() => resolve(Buffer.concat(chunks, length).subarray(headBytes, wanted)))
    }
    from.on('data', onData)
    from.once('error', () => resolve(null))
    from.once('close', () => resolve(null))
  })
}
