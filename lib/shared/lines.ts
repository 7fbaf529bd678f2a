/** Takes text that may be split anywhere, and calls back with each whole line. */
export interface LineReader {
  push(text: string): void
  /** Passes on the text after the last line break, if any. */
  end(): void
}

/** How lines are split. */
export interface LineReaderOptions {
  /** A lone `\r` also ends a line, as in an event stream. */
  isEventStream?: boolean
  /**
   * Maximum length of a line in memory, in UTF-16 code units. A longer one is passed on in pieces of about that length.
   */
  maxLength?: number
}

/** Creates a reader of lines that end with `\n` or `\r\n`. Fragments of a line are kept in an array and joined once. */
export function createLineReader(
  onLine: (line: string) => void,
  { isEventStream = false, maxLength = Number.POSITIVE_INFINITY }: LineReaderOptions = {}
): LineReader {
  const lineBreak = isEventStream ? /\r\n|\n|\r/g : /\r?\n/g
  let held: string[] = []
  let heldLength = 0
  let isReturnHeld = false

  function emit(last: string): void {
    held.push(last)
    const line = held.join('')
    held = []
    heldLength = 0
    onLine(line)
  }

  function hold(text: string): void {
    held.push(text)
    heldLength += text.length
    if (heldLength > maxLength) emit('')
  }

  return {
    push(chunk) {
      if (chunk === '') return
      // A `\r` at the end of a chunk may be half of a line break: it is kept until the next chunk.
      const text = isReturnHeld ? `\r${chunk}` : chunk
      isReturnHeld = text.endsWith('\r')
      const whole = isReturnHeld ? text.slice(0, -1) : text
      let from = 0
      for (const found of whole.matchAll(lineBreak)) {
        emit(whole.slice(from, found.index))
        from = found.index + found[0].length
      }
      if (from < whole.length) hold(whole.slice(from))
    },
    end() {
      if (isReturnHeld && !isEventStream) held.push('\r')
      isReturnHeld = false
      if (held.length > 0) emit('')
    }
  }
}
