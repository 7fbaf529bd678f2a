const minBytes = 512

/** Bytes that arrive in pieces and are needed as a whole. */
export interface Gathered {
  readonly length: number
  add(piece: Buffer): void
  /** Returns what has arrived. */
  bytes(): Buffer
}

/**
 * Gathers pieces in a buffer that doubles, so that each byte is copied only a few times: a list of 8,000 pieces of one
 * byte would take megabytes. `announcedBytes` is the expected size, or 0. `hold` takes memory before it is used, the
 * announced size at once; what it throws, this throws.
 */
export function gather(announcedBytes: number, hold: (bytes: number) => void): Gathered {
  let buffer: Buffer = Buffer.alloc(0)
  let length = 0
  let heldBytes = announcedBytes > 0 ? announcedBytes : minBytes
  hold(heldBytes)

  function enlarge(least: number): void {
    const size = least <= announcedBytes ? announcedBytes : Math.max(least, 2 * buffer.length, minBytes)
    if (size > heldBytes) hold(size - heldBytes)
    heldBytes = Math.max(heldBytes, size)
    const larger = Buffer.allocUnsafe(size)
    buffer.copy(larger, 0, 0, length)
    buffer = larger
  }

  return {
    get length() {
      return length
    },
    add(piece) {
      if (length === 0 && piece.length === announcedBytes) buffer = piece
      else {
        if (length + piece.length > buffer.length) enlarge(length + piece.length)
        piece.copy(buffer, length)
      }
      length += piece.length
    },
    bytes: () => buffer.subarray(0, length)
  }
}
