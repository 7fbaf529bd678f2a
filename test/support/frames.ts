/** Frames as a client sends them (RFC 6455 §5.2), valid or not. */
export interface FrameParts {
  fin?: boolean
  /** The three reserved bits as a number: 4, 2, 1. */
  rsv?: number
  opcode: number
  payload?: Uint8Array | string
  /** The mask. Undefined uses that of the RFC's examples; null sends the frame unmasked. */
  mask?: Uint8Array | null
  /** The form of the length. Default: the shortest. */
  lengthIn?: 7 | 16 | 64
  /** The length in the header, if it differs from the payload. */
  length?: number | bigint
}

/** The key of the RFC's examples (§5.7). */
export const exampleMask = Buffer.from('37fa213d', 'hex')

export const text = 1
export const binary = 2
export const close = 8
export const ping = 9
export const pong = 10
export const continuation = 0

export function frame(parts: FrameParts): Buffer {
  const { fin = true, rsv = 0, opcode, mask = exampleMask } = parts
  const payload = Buffer.from(parts.payload ?? '')
  const length = BigInt(parts.length ?? payload.length)
  const lengthIn = parts.lengthIn ?? (length < 126n ? 7 : length < 65536n ? 16 : 64)
  const masked = mask === null ? 0 : 0x80
  const head = Buffer.alloc(lengthIn === 7 ? 2 : lengthIn === 16 ? 4 : 10)
  head[0] = (fin ? 0x80 : 0) | (rsv << 4) | opcode
  if (lengthIn === 7) head[1] = masked | Number(length)
  else head[1] = masked | (lengthIn === 16 ? 126 : 127)
  if (lengthIn === 16) head.writeUInt16BE(Number(length), 2)
  if (lengthIn === 64) head.writeBigUInt64BE(length, 2)
  if (mask === null) return Buffer.concat([head, payload])
  return Buffer.concat([head, mask, payload.map((byte, i) => byte ^ (mask[i % 4] as number))])
}

/** Returns the payload of a close frame. */
export function closing(code: number, reason: string | Uint8Array = ''): Buffer {
  const bytes = Buffer.from(reason)
  const payload = Buffer.alloc(2 + bytes.length)
  payload.writeUInt16BE(code)
  bytes.copy(payload, 2)
  return payload
}

/** Describes a frame of the server: `text Hello`, `binary 0102`, `pong 48656c`, `close 1002`. */
export function describeFrame({ opcode, payload, isWrong }: ServerFrame): string {
  if (isWrong !== undefined) return isWrong
  switch (opcode) {
    case text:
      return `text ${payload.toString('utf8')}`
    case binary:
      return `binary ${payload.toString('hex')}`
    case ping:
      return `ping ${payload.toString('hex')}`
    case pong:
      return `pong ${payload.toString('hex')}`
    case close:
      return payload.length === 0 ? 'close' : `close ${payload.readUInt16BE()}`
    default:
      return `opcode ${opcode}`
  }
}

export interface ServerFrame {
  opcode: number
  payload: Buffer
  /** What no server may send: a fragment, a reserved bit, a mask, a length that is too long. */
  isWrong?: string
}

/** Removes the complete frames from the bytes of a server and returns the rest. */
export function readFrames(bytes: Buffer, take: (frame: ServerFrame) => void): Buffer {
  for (let at = 0; ; ) {
    const rest = bytes.subarray(at)
    if (rest.length < 2) return rest
    const short = (rest[1] as number) & 0x7f
    const headBytes = short < 126 ? 2 : short === 126 ? 4 : 10
    if (rest.length < headBytes) return rest
    const length = short < 126 ? short : short === 126 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2))
    if (rest.length < headBytes + length) return rest
    const first = rest[0] as number
    const isLong = (short === 126 && length < 126) || (short === 127 && length < 65536)
    const isWrong =
      (first & 0xf0) !== 0x80
        ? 'a fragment, or reserved bits'
        : (rest[1] as number) & 0x80
          ? 'masked'
          : isLong
            ? 'length'
            : undefined
    take({
      opcode: first & 0x0f,
      payload: rest.subarray(headBytes, headBytes + length),
      ...(isWrong === undefined ? {} : { isWrong })
    })
    at += headBytes + length
  }
}
