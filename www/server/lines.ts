/** Text in, cut anywhere; whole lines out. Fragments are held in an array and joined once. */
export interface LineReader {
  push(text: string): void
  /** Hands out what follows the last line break, if anything does. */
  end(): void
}

/** Lines end with `\n` or `\r\n`; with `eventStream` also with a lone `\r`, as the event stream format has it. */
export function createLineReader(onLine: (line: string) => void, { eventStream = false } = {}): LineReader {
  const lineBreak = eventStream ? /\r\n|\n|\r/g : /\r?\n/g
  let held: string[] = []
  let heldReturn = false

  const emit = (last: string): void => {
    held.push(last)
    const line = held.join('')
    held = []
    onLine(line)
  }

  return {
    push(chunk) {
      if (chunk === '') return
      // A `\r` at the end of a chunk may be half of a line break: it waits for the next one.
      const text = heldReturn ? `\r${chunk}` : chunk
      heldReturn = text.endsWith('\r')
      const whole = heldReturn ? text.slice(0, -1) : text
      let from = 0
      for (const found of whole.matchAll(lineBreak)) {
        emit(whole.slice(from, found.index))
        from = found.index + found[0].length
      }
      if (from < whole.length) held.push(whole.slice(from))
    },
    end() {
      if (heldReturn && !eventStream) held.push('\r')
      heldReturn = false
      if (held.length > 0) emit('')
    }
  }
}
