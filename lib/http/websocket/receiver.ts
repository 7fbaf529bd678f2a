/*
 * The receiver of a WebSocket server: RFC 6455 §5 (frames), §7.4 (close codes), §8.1 (UTF-8).
 *
 *      0               1               2               3
 *     |F|R|R|R|opcode |M| length (7)  |  length (16, or 64)   …
 *     |I|S|S|S|  (4)  |A|             |  if the 7-bit length is 126, or 127
 *     |N|V|V|V|       |S|             |  masking key (32)  …  payload, each byte XORed with one of the key
 *
 * `push` takes bytes, cut anywhere; the `on` functions get messages and control frames at once. The receiver knows no
 * socket. A violation by the client throws a FrameError, and nothing more may be pushed.
 *
 * STATES, named after what is read next, and what ends each
 *
 *   head       two bytes: flags, opcode, mask bit, length       the length → length16, length64 or mask
 *   length16   two bytes                                        → mask
 *   length64   eight bytes                                      → mask
 *   mask       the four bytes of the key, which a client's      → payload
 *              frames always have
 *   payload    as many bytes as the length says                 the frame is handled → head
 *   over       nothing: a close frame was read, and data        never: bytes are dropped
 *              after it is ignored (§5.5.1)
 *
 * A step takes its bytes as a whole. While some of them are missing, it changes nothing but the buffer that collects
 * them. The buffer is as large as the step needs. So memory depends on the lengths, which are checked first, and never
 * on how the input was cut. A payload within one chunk is unmasked in place, so pushed bytes belong to the receiver
 * from then on.
 *
 * LIMITS  `maxMessageBytes` limits a message with all of its frames. `maxFragments` limits the number of frames,
 * because a message of empty frames would never end. Exceeding either is 1009, before a byte of the payload is read.
 *
 * DIFFERENCES  §5.2 requires that a length takes as few bytes as possible. Longer forms are refused, although most
 * receivers accept them. Text is decoded frame by frame, so an invalid byte is detected at the end of its frame, not
 * of its message. It is not detected within a frame (§8.1 does not require that).
 */
import { TextDecoder } from 'node:util'

type State = 'head' | 'length16' | 'length64' | 'mask' | 'payload' | 'over'

export interface ReceiverLimits {
  /** Maximum payload of a message, all its frames together; then 1009. */
  maxMessageBytes: number
  /** Maximum number of frames of a message; then 1009. */
  maxFragments: number
}

export const defaultReceiverLimits: ReceiverLimits = { maxMessageBytes: 1024 * 1024, maxFragments: 1024 }

/** A message: text as a string, binary data as bytes. */
export type Message = string | Buffer

/** Called with what was received. */
interface ReceiverEvents {
  message(message: Message): void
  ping(payload: Buffer): void
  pong(payload: Buffer): void
  /** The peer's close frame; nothing follows it. `code` is 1005 if the frame had none. */
  close(code: number, reason: string): void
}

const newDecoder = (): TextDecoder => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads the frames of one connection; see the head of this file. */
export class Receiver {
  readonly #events: ReceiverEvents
  readonly #limits: ReceiverLimits
  #state: State = 'head'
  /** The current chunk, and the position up to which it was read. */
  #input: Buffer = Buffer.alloc(0)
  #at = 0
  /** The collected bytes of a step that an earlier chunk began. `gathered` is their number. */
  #partial: Buffer | undefined
  #gathered = 0

  // The current frame.
  #isFinal = false
  #opcode = 0
  #length = 0
  #mask: Buffer = this.#input

  // The message whose frames are being read; opcode 0 if there is none.
  #messageOpcode = 0
  #messageBytes = 0
  #fragments: Message[] = []
  #decoder: TextDecoder | undefined
  readonly #whole = newDecoder()

  constructor(events: ReceiverEvents, limits: ReceiverLimits = defaultReceiverLimits) {
    this.#events = events
    this.#limits = limits
  }

  /** Parses a chunk. Throws a FrameError. The bytes belong to the receiver from now on: it unmasks them in place. */
  push(chunk: Buffer): void {
    this.#input = chunk
    this.#at = 0
    while (this.#step());
  }

  /** Returns the next `count` bytes, or undefined while some of them are missing. */
  #take(count: number): Buffer | undefined {
    if (this.#partial === undefined && this.#input.length - this.#at >= count)
      return this.#input.subarray(this.#at, (this.#at += count))
    if (this.#at === this.#input.length) return undefined
    this.#partial ??= Buffer.allocUnsafe(count)
    const more = this.#input.copy(this.#partial, this.#gathered, this.#at, this.#at + count - this.#gathered)
    this.#at += more
    this.#gathered += more
    if (this.#gathered < count) return undefined
    const bytes = this.#partial
    this.#partial = undefined
    this.#gathered = 0
    return bytes
  }

  /** Runs one step. Returns whether there were enough bytes for it. */
  #step(): boolean {
    switch (this.#state) {
      case 'head': {
        const bytes = this.#take(2)
        if (bytes !== undefined) this.#readHead(bytes[0] as number, bytes[1] as number)
        return bytes !== undefined
      }
      case 'length16': {
        const bytes = this.#take(2)
        if (bytes !== undefined) this.#readLength(bytes.readUInt16BE(), maxControlBytes + 1)
        return bytes !== undefined
      }
      case 'length64': {
        const bytes = this.#take(8)
        if (bytes !== undefined) this.#readLength64(bytes.readUInt32BE(), bytes.readUInt32BE(4))
        return bytes !== undefined
      }
      case 'mask': {
        const bytes = this.#take(4)
        if (bytes === undefined) return false
        this.#mask = bytes
        this.#state = 'payload'
        return true
      }
      case 'payload': {
        const bytes = this.#take(this.#length)
        if (bytes === undefined) return false
        unmask(bytes, this.#mask)
        this.#state = 'head'
        if (this.#opcode >= opcodes.close) this.#readControl(bytes)
        else this.#readData(bytes)
        return true
      }
      case 'over':
        return false
    }
  }

  #readHead(first: number, second: number): void {
    this.#isFinal = (first & 0x80) !== 0
    this.#opcode = first & 0x0f
    this.#length = second & 0x7f
    if ((first & 0x70) !== 0) fail('WS_RSV', 'RSV1, RSV2 and RSV3 must be clear: no extension was agreed on (§5.2)')
    if (!isKnown(this.#opcode)) fail('WS_OPCODE', `unknown opcode ${this.#opcode} (§5.2)`)
    if ((second & 0x80) === 0) fail('WS_MASK', 'a client must mask its frames (§5.1)')
    if (this.#opcode >= opcodes.close) {
      if (!this.#isFinal) fail('WS_CONTROL_FIN', 'a control frame must not be fragmented (§5.5)')
      if (this.#length > maxControlBytes) fail('WS_CONTROL_LENGTH', 'a control frame has at most 125 bytes (§5.5)')
    } else {
      const isContinued = this.#messageOpcode !== 0
      if (this.#opcode === opcodes.continuation && !isContinued)
        fail('WS_CONTINUATION', 'there is no message to continue (§5.4)')
      if (this.#opcode !== opcodes.continuation && isContinued)
        fail('WS_INTERLEAVED', 'the previous message has not ended (§5.4)')
    }
    if (this.#length === 126) this.#state = 'length16'
    else if (this.#length === 127) this.#state = 'length64'
    else this.#readLength(this.#length, 0)
  }

  #readLength64(high: number, low: number): void {
    if (high > 0x7fff_ffff) fail('WS_LENGTH', 'the most significant bit of a length must be 0 (§5.2)')
    this.#readLength(high * 2 ** 32 + low, 2 ** 16)
  }

  /** Sets the length. A value below `least` should have been written in fewer bytes. */
  #readLength(value: number, least: number): void {
    if (value < least) fail('WS_LENGTH', 'a length must use as few bytes as possible (§5.2)')
    this.#length = value
    if (this.#opcode < opcodes.close) this.#checkLimits()
    this.#state = 'mask'
  }

  #checkLimits(): void {
    const { maxMessageBytes, maxFragments } = this.#limits
    if (this.#messageBytes + this.#length > maxMessageBytes)
      tooLarge('WS_MESSAGE_SIZE', `a message has at most ${maxMessageBytes} bytes`)
    if (this.#fragments.length >= maxFragments) tooLarge('WS_FRAGMENTS', `a message has at most ${maxFragments} frames`)
  }

  #readData(bytes: Buffer): void {
    // Fast path for almost every message: a single frame, decoded at once (bench/websocket).
    if (this.#isFinal && this.#messageOpcode === 0) {
      this.#events.message(this.#opcode === opcodes.text ? decode(this.#whole, bytes, false) : bytes)
      return
    }
    if (this.#messageOpcode === 0) this.#beginMessage()
    this.#messageBytes += bytes.length
    this.#fragments.push(this.#decoder === undefined ? bytes : decode(this.#decoder, bytes, !this.#isFinal))
    if (this.#isFinal) this.#endMessage()
  }

  #beginMessage(): void {
    this.#messageOpcode = this.#opcode
    this.#decoder = this.#opcode === opcodes.text ? newDecoder() : undefined
  }

  #endMessage(): void {
    const message =
      this.#decoder === undefined
        ? Buffer.concat(this.#fragments as Buffer[], this.#messageBytes)
        : this.#fragments.join('')
    this.#messageOpcode = 0
    this.#messageBytes = 0
    this.#fragments = []
    this.#decoder = undefined
    this.#events.message(message)
  }

  #readControl(bytes: Buffer): void {
    if (this.#opcode === opcodes.ping) return this.#events.ping(bytes)
    if (this.#opcode === opcodes.pong) return this.#events.pong(bytes)
    this.#state = 'over'
    this.#readClose(bytes)
  }

  /** Reads a close frame (§5.5.1): empty, or a code in two bytes and a reason in UTF-8. */
  #readClose(bytes: Buffer): void {
    if (bytes.length === 0) return this.#events.close(closeCodes.none, '')
    if (bytes.length === 1) fail('WS_CLOSE_LENGTH', 'a close code must have two bytes (§5.5.1)')
    const code = bytes.readUInt16BE()
    if (!isCloseCode(code)) fail('WS_CLOSE_CODE', `the close code ${code} must not be sent (§7.4)`)
    this.#events.close(code, decode(this.#whole, bytes.subarray(2), false))
  }
}

function isKnown(opcode: number): boolean {
  return opcode <= opcodes.binary || (opcode >= opcodes.close && opcode <= opcodes.pong)
}

function decode(decoder: TextDecoder, bytes: Buffer, stream: boolean): string {
  try {
    return decoder.decode(bytes, { stream })
  } catch {
    throw new FrameError(closeCodes.invalidData, 'WS_UTF8', 'text must be valid UTF-8 (§8.1)')
  }
}

function fail(code: string, sentence: string): never {
  throw new FrameError(closeCodes.protocolError, code, sentence)
}

function tooLarge(code: string, sentence: string): never {
  throw new FrameError(closeCodes.tooLarge, code, sentence)
}

/** Shorter payloads are not worth creating the two views. */
const wordwiseFromBytes = 64

/**
 * Unmasks a payload (§5.3). The fast path takes four bytes at a time, from the first aligned word on (bench/websocket).
 */
function unmask(bytes: Buffer, mask: Buffer): void {
  let i = 0
  if (bytes.length >= wordwiseFromBytes) {
    for (; ((bytes.byteOffset + i) & 3) !== 0; i++) xor(bytes, mask, i)
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset + i, (bytes.length - i) >> 2)
    const key = new Uint32Array(
      Uint8Array.of(...[0, 1, 2, 3].map(k => mask[(i + k) & 3] as number)).buffer
    )[0] as number
    for (let w = 0; w < words.length; w++) (words[w] as number) ^= key
    i += words.length * 4
  }
  for (; i < bytes.length; i++) xor(bytes, mask, i)
}

function xor(bytes: Buffer, mask: Buffer, i: number): void {
  bytes[i] = (bytes[i] as number) ^ (mask[i & 3] as number)
}

/** The opcodes of frames (RFC 6455 §5.2 and §11.8). */
export const opcodes = { continuation: 0x0, text: 0x1, binary: 0x2, close: 0x8, ping: 0x9, pong: 0xa } as const

/** Maximum payload of a control frame: "MUST have a payload length of 125 bytes or less" (§5.5). */
export const maxControlBytes = 125

/** Close codes (§7.4.1), named after their use here. */
export const closeCodes = {
  normal: 1000,
  goingAway: 1001,
  protocolError: 1002,
  unsupportedData: 1003,
  /** The peer's close frame had no code. Never sent. */
  none: 1005,
  invalidData: 1007,
  policy: 1008,
  tooLarge: 1009,
  internalError: 1011
} as const

/**
 * Whether a close frame may carry the code (§7.4): 1000 to 1014 except those that are only reported locally (1004 to
 * 1006), and the codes of libraries and applications.
 */
export function isCloseCode(code: number): boolean {
  if (code >= 3000) return code <= 4999
  return code >= 1000 && code <= 1014 && (code < 1004 || code > 1006)
}

/** A violation by the peer that ends the connection. `closeCode` is sent, `code` is a stable identifier. */
export class FrameError extends Error {
  readonly closeCode: number
  readonly code: string

  constructor(closeCode: number, code: string, sentence: string) {
    super(sentence)
    this.name = 'FrameError'
    this.closeCode = closeCode
    this.code = code
  }
}
