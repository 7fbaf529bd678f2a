const newline = 10
const carriageReturn = 13

/** Splits bytes into lines. */
export interface LineSplitter {
  /** Number of bytes of the incomplete line. */
  readonly heldBytes: number
  /** Takes bytes that may be split anywhere. Calls back once for each complete line. */
  push(chunk: Buffer): void
  /** Passes on the text after the last newline, if any. */
  end(): void
}

/** Maximum length of a line that is passed on whole. A longer one is passed on in pieces of this size. */
export const maxLineBytes = 64 * 1024

/**
 * Creates a splitter. Lines are passed on without their `\n` or `\r\n`, decoded as UTF-8 when they are complete, with
 * invalid bytes as U+FFFD. Fragments are kept in an array and joined once. `limitBytes` is the maximum size of a piece.
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
      // Copied: the chunk may be a slice of a pool that its owner reuses.
      if (from < chunk.length) hold(Buffer.from(chunk.subarray(from)))
    },
    end() {
      if (heldBytes > 0) finish(Buffer.alloc(0))
    }
  }
}

/** Moves a cut back to the start of a UTF-8 sequence, by at most the 3 bytes that can follow its first. */
function startOfCharacter(bytes: Buffer, cut: number): number {
  let at = cut
  while (at > cut - 3 && ((bytes[at] as number) & 0xc0) === 0x80) at--
  return at
}
