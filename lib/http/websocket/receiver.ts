/*
 * The receiver of a WebSocket server: RFC 6455 §5 (frames), §7.4 (close codes), §8.1 (UTF-8).
 *
 *      0               1               2               3
 *     |F|R|R|R|opcode |M| length (7)  |  length (16, or 64)   …
 *     |I|S|S|S|  (4)  |A|             |  where length is 126, or 127
 *     |N|V|V|V|       |S|             |  masking key (32)  …  payload, each byte XORed with one of the key
 *
 * Bytes come in with `push`, cut anywhere; messages and control frames go out at once through the `on` functions. The
 * receiver knows no socket. What a client must not send throws a FrameError, and nothing more may be pushed.
 *
 * STATES, named after what is read next, and what ends each
 *
 *   head       two bytes: flags, opcode, mask bit, length       the length → length16, length64 or mask
 *   length16   two bytes                                        → mask
 *   length64   eight bytes                                      → mask
 *   mask       the four bytes of the key: a client's frames     → payload
 *              always have one
 *   payload    as many bytes as the length says                 the frame is handled → head
 *   over       nothing: a close frame was read, and "any        never: bytes are dropped
 *              further data" after it means nothing (§5.5.1)
 *
 * A step takes its bytes whole. While they are not all there it changes nothing but the place they gather in, which is
 * as large as the step needs: memory follows from the lengths, which are checked first, never from how it was cut.
 * A payload that lies in one chunk is unmasked where it lies, so what is pushed is the receiver's own from then on.
 *
 * LIMITS  `maxMessageBytes` of a message, all of its frames together; `maxFragments`, or a message of empty frames
 * would never end. Both are 1009, before a byte of the payload is read.
 *
 * DIFFERENCES  §5.2 says that a length takes as few bytes as it can: what takes more is refused, though most receivers
 * let it pass. Text is decoded frame by frame, so a bad byte is seen at the end of its frame, not of its message; it is
 * not looked for within one (§8.1 does not ask for that).
 */
import { TextDecoder } from 'node:util'
import { closeCodes, FrameError, isCloseCode, maxControlBytes, opcodes } from './frame.js'

type State = 'head' | 'length16' | 'length64' | 'mask' | 'payload' | 'over'

export interface ReceiverLimits {
  /** Payload of a message, all its frames together; then 1009. */
  maxMessageBytes: number
  /** Frames of a message; then 1009. */
  maxFragments: number
}

export const defaultReceiverLimits: ReceiverLimits = { maxMessageBytes: 1024 * 1024, maxFragments: 1024 }

/** A message: text as a string, anything else as bytes. */
export type Message = string | Buffer

/** What the bytes mean. */
export interface ReceiverEvents {
  message(message: Message): void
  ping(payload: Buffer): void
  pong(payload: Buffer): void
  /** The last thing that is said. `code` is 1005 where the frame had none. */
  close(code: number, reason: string): void
}

export interface Receiver {
  /** Throws a FrameError. The bytes are the receiver's own from now on: they are unmasked in place. */
  push(chunk: Buffer): void
}

const newDecoder = (): TextDecoder => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** See the head of this file. */
export function createReceiver(events: ReceiverEvents, limits: ReceiverLimits = defaultReceiverLimits): Receiver {
  let state: State = 'head'
  /** What is being read, and how far: `input` from `at`. */
  let input: Buffer = Buffer.alloc(0)
  let at = 0
  /** The bytes of a step that an earlier chunk began; `gathered` of them are there. */
  let partial: Buffer | undefined
  let gathered = 0

  // The frame.
  let isFinal = false
  let opcode = 0
  let length = 0
  let mask: Buffer = input

  // The message its data frames are parts of; 0: there is none.
  let messageOpcode = 0
  let messageBytes = 0
  let fragments: Message[] = []
  let decoder: TextDecoder | undefined
  const whole = newDecoder()

  /** The next `count` bytes, or undefined while they are not all there. */
  function take(count: number): Buffer | undefined {
    if (partial === undefined && input.length - at >= count) return input.subarray(at, (at += count))
    if (at === input.length) return undefined
    partial ??= Buffer.allocUnsafe(count)
    const more = input.copy(partial, gathered, at, at + count - gathered)
    at += more
    gathered += more
    if (gathered < count) return undefined
    const bytes = partial
    partial = undefined
    gathered = 0
    return bytes
  }

  /** Whether there was enough for another step. */
  function step(): boolean {
    switch (state) {
      case 'head': {
        const bytes = take(2)
        if (bytes !== undefined) readHead(bytes[0] as number, bytes[1] as number)
        return bytes !== undefined
      }
      case 'length16': {
        const bytes = take(2)
        if (bytes !== undefined) readLength(bytes.readUInt16BE(), maxControlBytes + 1)
        return bytes !== undefined
      }
      case 'length64': {
        const bytes = take(8)
        if (bytes !== undefined) readLength64(bytes.readUInt32BE(), bytes.readUInt32BE(4))
        return bytes !== undefined
      }
      case 'mask': {
        const bytes = take(4)
        if (bytes === undefined) return false
        mask = bytes
        state = 'payload'
        return true
      }
      case 'payload': {
        const bytes = take(length)
        if (bytes === undefined) return false
        unmask(bytes, mask)
        state = 'head'
        if (opcode >= opcodes.close) readControl(bytes)
        else readData(bytes)
        return true
      }
      case 'over':
        return false
    }
  }

  function readHead(first: number, second: number): void {
    isFinal = (first & 0x80) !== 0
    opcode = first & 0x0f
    length = second & 0x7f
    if ((first & 0x70) !== 0) fail('WS_RSV', 'RSV1, RSV2 and RSV3 must be clear: no extension was agreed on (§5.2)')
    if (!isKnown(opcode)) fail('WS_OPCODE', `the opcode ${opcode} means nothing (§5.2)`)
    if ((second & 0x80) === 0) fail('WS_MASK', 'a client masks its frames (§5.1)')
    if (opcode >= opcodes.close) {
      if (!isFinal) fail('WS_CONTROL_FIN', 'a control frame is not fragmented (§5.5)')
      if (length > maxControlBytes) fail('WS_CONTROL_LENGTH', 'a control frame has at most 125 bytes (§5.5)')
    } else {
      const isContinued = messageOpcode !== 0
      if (opcode === opcodes.continuation && !isContinued) fail('WS_CONTINUATION', 'there is no message to continue (§5.4)')
      if (opcode !== opcodes.continuation && isContinued) fail('WS_INTERLEAVED', 'the message before has not ended (§5.4)')
    }
    if (length === 126) state = 'length16'
    else if (length === 127) state = 'length64'
    else readLength(length, 0)
  }

  function readLength64(high: number, low: number): void {
    if (high > 0x7fff_ffff) fail('WS_LENGTH', 'the most significant bit of a length is 0 (§5.2)')
    readLength(high * 2 ** 32 + low, 2 ** 16)
  }

  /** `least`: below it the length would have been written in fewer bytes. */
  function readLength(value: number, least: number): void {
    if (value < least) fail('WS_LENGTH', 'a length is written in as few bytes as it takes (§5.2)')
    length = value
    if (opcode < opcodes.close) checkLimits()
    state = 'mask'
  }

  function checkLimits(): void {
    const { maxMessageBytes, maxFragments } = limits
    if (messageBytes + length > maxMessageBytes) tooLarge('WS_MESSAGE_SIZE', `a message has at most ${maxMessageBytes} bytes`)
    if (fragments.length >= maxFragments) tooLarge('WS_FRAGMENTS', `a message has at most ${maxFragments} frames`)
  }

  function readData(bytes: Buffer): void {
    // The fast path, for nearly every message there is: a frame of its own, decoded at once (bench/websocket).
    if (isFinal && messageOpcode === 0) {
      events.message(opcode === opcodes.text ? decode(whole, bytes, false) : bytes)
      return
    }
    if (messageOpcode === 0) beginMessage()
    messageBytes += bytes.length
    fragments.push(decoder === undefined ? bytes : decode(decoder, bytes, !isFinal))
    if (isFinal) endMessage()
  }

  function beginMessage(): void {
    messageOpcode = opcode
    decoder = opcode === opcodes.text ? newDecoder() : undefined
  }

  function endMessage(): void {
    const message = decoder === undefined ? Buffer.concat(fragments as Buffer[], messageBytes) : fragments.join('')
    messageOpcode = 0
    messageBytes = 0
    fragments = []
    decoder = undefined
    events.message(message)
  }

  function readControl(bytes: Buffer): void {
    if (opcode === opcodes.ping) return events.ping(bytes)
    if (opcode === opcodes.pong) return events.pong(bytes)
    state = 'over'
    readClose(bytes)
  }

  /** §5.5.1: nothing, or a code in two bytes and a reason in UTF-8. */
  function readClose(bytes: Buffer): void {
    if (bytes.length === 0) return events.close(closeCodes.none, '')
    if (bytes.length === 1) fail('WS_CLOSE_LENGTH', 'a close code has two bytes (§5.5.1)')
    const code = bytes.readUInt16BE()
    if (!isCloseCode(code)) fail('WS_CLOSE_CODE', `the close code ${code} may not be sent (§7.4)`)
    events.close(code, decode(whole, bytes.subarray(2), false))
  }

  return {
    push(chunk) {
      input = chunk
      at = 0
      while (step());
    }
  }
}

function isKnown(opcode: number): boolean {
  return opcode <= opcodes.binary || (opcode >= opcodes.close && opcode <= opcodes.pong)
}

function decode(decoder: TextDecoder, bytes: Buffer, stream: boolean): string {
  try {
    return decoder.decode(bytes, { stream })
  } catch {
    throw new FrameError(closeCodes.invalidData, 'WS_UTF8', 'text is valid UTF-8 (§8.1)')
  }
}

function fail(code: string, sentence: string): never {
  throw new FrameError(closeCodes.protocolError, code, sentence)
}

function tooLarge(code: string, sentence: string): never {
  throw new FrameError(closeCodes.tooLarge, code, sentence)
}

/** Shorter ones are not worth the two views. */
const wordwiseFromBytes = 64

/** §5.3. The fast path takes four bytes at a time, from the first whole word of the memory on (bench/websocket). */
function unmask(bytes: Buffer, mask: Buffer): void {
  let i = 0
  if (bytes.length >= wordwiseFromBytes) {
    for (; ((bytes.byteOffset + i) & 3) !== 0; i++) xor(bytes, mask, i)
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset + i, (bytes.length - i) >> 2)
    const key = new Uint32Array(Uint8Array.of(...[0, 1, 2, 3].map(k => mask[(i + k) & 3] as number)).buffer)[0] as number
    for (let w = 0; w < words.length; w++) (words[w] as number) ^= key
    i += words.length * 4
  }
  for (; i < bytes.length; i++) xor(bytes, mask, i)
}

function xor(bytes: Buffer, mask: Buffer, i: number): void {
  bytes[i] = (bytes[i] as number) ^ (mask[i & 3] as number)
}
