import type { LogLine } from './log-text.js'

/*
 * The lines of a file that are held, with the bytes that they stand in. Lines come and go at both ends in parts, since
 * only of a part's two ends the bytes are known exactly: line ends and broken characters are gone from the text. Pure.
 */

/** Lines that came together. */
export interface LinePart {
  lines: readonly LogLine[]
  /** Bytes of the file; null: they are not of the file that has the name now. */
  bytes: { start: number; end: number } | null
}

export interface HeldLines {
  readonly lines: readonly LogLine[]
  /** The number of the first one. */
  readonly firstNumber: number
  /** Bytes of the first and behind the last part of the file that has the name now; null: there is none. */
  readonly start: number | null
  readonly end: number | null
  append(part: LinePart): void
  prepend(part: LinePart): void
  /** Takes the last line away again, which begins at this byte: it was not finished. */
  dropLast(start: number): void
  /** Where there are more than the limits allow, parts go at one end, and some more, so that this is seldom. */
  trim(end: 'head' | 'tail'): void
  /** From now on the bytes that are known mean another file. */
  forgetBytes(): void
  clear(): void
  /** About where a line stands; null: in no file that is there. */
  offsetOf(number: number): number | null
}

export interface HeldLimits {
  maxLines?: number
  /** Of UTF-16, as JavaScript has it: half of the bytes. */
  maxCharacters?: number
}

export function createHeldLines({ maxLines = 100_000, maxCharacters = 32 * 1024 * 1024 }: HeldLimits = {}): HeldLines {
  let lines: LogLine[] = []
  let parts: Array<{ count: number; characters: number; bytes: LinePart['bytes'] }> = []
  let firstNumber = 0
  let characters = 0

  const sizeOf = (part: readonly LogLine[]): number =>
    part.reduce((sum, { text, isNote }) => sum + (isNote === true ? 0 : text.length + 1), 0)
  const isOver = (share: number, gone = 0): boolean =>
    parts.length > 1 && (lines.length - gone > maxLines * share || characters > maxCharacters * share)

  return {
    get lines() {
      return lines
    },
    get firstNumber() {
      return firstNumber
    },
    get start() {
      // A note before the first line is of no file, and holds nothing back.
      return parts.find(({ bytes, characters }) => bytes !== null || characters > 0)?.bytes?.start ?? null
    },
    get end() {
      return parts.findLast(({ bytes }) => bytes !== null)?.bytes?.end ?? null
    },
    append({ lines: more, bytes }) {
      const size = sizeOf(more)
      for (const line of more) lines.push(line)
      parts.push({ count: more.length, characters: size, bytes })
      characters += size
    },
    prepend({ lines: more, bytes }) {
      const size = sizeOf(more)
      lines = [...more, ...lines]
      parts.unshift({ count: more.length, characters: size, bytes })
      firstNumber -= more.length
      characters += size
    },
    dropLast(start) {
      const part = parts.findLast(({ count }) => count > 0)
      const last = lines.pop()
      if (part === undefined || last === undefined) return
      part.count--
      if (part.bytes !== null) part.bytes = { ...part.bytes, end: start }
      part.characters -= last.text.length + 1
      characters -= last.text.length + 1
    },
    trim(end) {
      if (!isOver(1)) return
      let gone = 0
      while (isOver(0.9, gone)) {
        const part = (end === 'head' ? parts.shift() : parts.pop()) as (typeof parts)[number]
        characters -= part.characters
        gone += part.count
      }
      // At once: lines that came one by one are as many parts.
      if (end === 'head') {
        lines.splice(0, gone)
        firstNumber += gone
      } else {
        lines.splice(lines.length - gone)
      }
    },
    forgetBytes() {
      for (const part of parts) part.bytes = null
    },
    clear() {
      lines = []
      parts = []
      firstNumber = 0
      characters = 0
    },
    offsetOf(number) {
      let first = firstNumber
      for (const { count, bytes } of parts) {
        if (number < first + count) {
          if (bytes === null) return null
          return Math.round(bytes.start + ((bytes.end - bytes.start) * (number - first)) / count)
        }
        first += count
      }
      return null
    }
  }
}
