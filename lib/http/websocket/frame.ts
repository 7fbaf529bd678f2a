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
