import { parseAnsi, plainStyle } from './ansi.js'
import type { TextStyle } from './ansi.js'

/** In which style each line begins, since colours last over the end of a line. */
export interface LogStyles {
  /** How many lines have been read. */
  readonly lines: number
  /** Reads the next line. */
  push(text: string): void
  /** Lines that were given up before they were read; what they left on is not known. */
  skip(lines: number): void
  styleOf(line: number): TextStyle
}

/** Keeps only the lines that begin in another style than the plain one. */
export function createLogStyles(): LogStyles {
  const begun = new Map<number, TextStyle>()
  let lines = 0
  let style = plainStyle
  return {
    get lines() {
      return lines
    },
    push(text) {
      if (style !== plainStyle) begun.set(lines, style)
      style = parseAnsi(text, style).style
      lines++
    },
    skip(count) {
      style = plainStyle
      lines += count
    },
    styleOf: line => begun.get(line) ?? plainStyle
  }
}
