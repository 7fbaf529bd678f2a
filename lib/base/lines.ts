const newline = 10
const carriageReturn = 13

export interface LineSplitter {
  /** Bytes of the line that waits for its end. */
  readonly heldBytes: number
  /** Takes bytes, cut anywhere; calls back once for each line that is complete. */
  push(chunk: Buffer): void
  /** Hands out what follows the last newline, if anything does. */
  end(): void
}

/** Longest line that is handed out whole; a longer one is handed out in pieces of this size. */
export const maxLineBytes = 64 * 1024

/**
 * Bytes in, lines out: without their `\n` or `\r\n`, decoded as UTF-8 once they are whole, invalid bytes as U+FFFD.
 * Fragments are held in an array and joined once. `limitBytes` is the longest piece.
 */
export function createLineSplitter(onLine: (line: string) => void, limitBytes = maxLineBytes): LineSplitter {
  let held: Buffer[] = []
  let heldBytes = 0

  function hold(bytes: Buffer): void {
    held.push(bytes)
    heldBytes += bytes.length
    if (heldBytes <= limitBytes) return
    const whole = Buffer.concat(held, heldBytes)
    let from = 0
    while (whole.length - from > limitBytes) {
      const to = startOfCharacter(whole, from + limitBytes)
      onLine(whole.toString('utf8', from, to))
      from = to
    }
    held = [whole.subarray(from)]
    heldBytes = whole.length - from
  }

  function finish(last: Buffer): void {
    let whole = last
    if (heldBytes > 0 || last.length > limitBytes) {
      hold(last)
      whole = Buffer.concat(held, heldBytes)
      held = []
      heldBytes = 0
    }
    const end = whole[whole.length - 1] === carriageReturn ? whole.length - 1 : whole.length
    onLine(whole.toString('utf8', 0, end))
  }

  return {
    get heldBytes() {
      return heldBytes
    },
    push(chunk) {
      let from = 0
      for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
        finish(chunk.subarray(from, at))
        from = at + 1
      }
      // Copied: the chunk may be a slice of a pool that its owner uses again.
      if (from < chunk.length) hold(Buffer.from(chunk.subarray(from)))
    },
    end() {
      if (heldBytes > 0) finish(Buffer.alloc(0))
    }
  }
}

/** Moves a cut back to where a UTF-8 sequence starts, at most the 3 bytes that one can have behind its first. */
function startOfCharacter(bytes: Buffer, cut: number): number {
  let at = cut
  while (at > cut - 3 && ((bytes[at] as number) & 0xc0) === 0x80) at--
  return at
}
