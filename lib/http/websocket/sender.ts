import type { Duplex } from 'node:stream'
import { maxControlBytes, opcodes } from './frame.js'

/**
 * Sends the frames of a server (RFC 6455 §5): never masked (§5.1), never fragmented. Each frame is written at once, in
 * the order of the calls; only the caller waits.
 */
export interface Sender {
  /**
   * Sends a message, as text if it is a string. Resolves when more may be written (backpressure) or the socket is gone.
   */
  message(content: string | Uint8Array): Promise<void>
  ping(): void
  /**
   * Answers a ping. While the peer does not read, only its latest ping is answered (§5.5.3 allows that), so a flood of
   * pings costs nothing.
   */
  pong(payload: Uint8Array): void
  /** Sends a close frame. With 1005 it has no code, as the answer to a close frame without one. */
  close(code: number, reason: string): void
}

/** Creates a sender that writes to `socket` and never ends it. */
export function createSender(socket: Duplex): Sender {
  let draining: Promise<void> | undefined
  let duePong: Uint8Array | undefined

  function frame(opcode: number, payload: Uint8Array): boolean {
    if (!socket.writable) return true
    const head = frameHead(opcode, payload.length)
    if (payload.length === 0) return socket.write(head)
    // Two writes would cost one more system call, and joining costs a copy. Node writes corked data together.
    socket.cork()
    socket.write(head)
    const isOpen = socket.write(payload)
    socket.uncork()
    return isOpen
  }

  function drained(): Promise<void> {
    draining ??= new Promise(resolve => {
      const settle = (): void => {
        draining = undefined
        socket.off('drain', settle).off('close', settle)
        const payload = duePong
        duePong = undefined
        if (payload !== undefined) pong(payload)
        resolve()
      }
      socket.on('drain', settle).on('close', settle)
    })
    return draining
  }

  function pong(payload: Uint8Array): void {
    if (draining !== undefined) duePong = payload
    else if (!frame(opcodes.pong, payload)) void drained()
  }

  return {
    pong,
    async message(content) {
      const isText = typeof content === 'string'
      const isOpen = frame(isText ? opcodes.text : opcodes.binary, isText ? Buffer.from(content) : content)
      if (!isOpen && !socket.destroyed) await drained()
    },
    ping: () => void frame(opcodes.ping, Buffer.alloc(0)),
    close: (code, reason) => void frame(opcodes.close, closePayload(code, reason))
  }
}

/** Returns FIN, the opcode, and the length in as few bytes as possible (§5.2). */
function frameHead(opcode: number, length: number): Buffer {
  const first = 0x80 | opcode
  if (length <= maxControlBytes) return Buffer.of(first, length)
  if (length < 2 ** 16) return Buffer.of(first, 126, length >> 8, length & 0xff)
  const head = Buffer.alloc(10)
  head[0] = first
  head[1] = 127
  head.writeUIntBE(length, 4, 6)
  return head
}

const noCode = 1005

/** Returns the payload of a close frame (§5.5.1). A reason that is too long is cut between characters. */
function closePayload(code: number, reason: string): Buffer {
  if (code === noCode) return Buffer.alloc(0)
  const text = Buffer.from(reason)
  let end = Math.min(text.length, maxControlBytes - 2)
  while (end < text.length && ((text[end] as number) & 0xc0) === 0x80) end--
  const payload = Buffer.alloc(2 + end)
  payload.writeUInt16BE(code)
  text.copy(payload, 2, 0, end)
  return payload
}
