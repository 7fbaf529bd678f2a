import type { LogLine } from './log-text.js'

/*
 * The loaded lines of a file with their byte range. Lines are added and removed in parts at both ends, because exact
 * offsets are known only at the two ends of a part: the text has lost line ends and invalid characters. Pure.
 */

/** Lines that were loaded together. */
export interface LinePart {
  lines: readonly LogLine[]
  /** Byte range in the file. Null means that the lines are not of the current file. */
  bytes: { start: number; end: number } | null
}

/** The loaded lines of a file. */
export interface HeldLines {
  readonly lines: readonly LogLine[]
  /** Number of the first line. */
  readonly firstNumber: number
  /** Start and end offset of the loaded lines in the current file; null without such lines. */
  readonly start: number | null
  readonly end: number | null
  append(part: LinePart): void
  prepend(part: LinePart): void
  /** Removes the last line, which begins at byte `start` and was incomplete. */
  dropLast(start: number): void
  /** Removes parts at one end if the limits are exceeded, and a few more, so that this happens rarely. */
  trim(end: 'head' | 'tail'): void
  /** Forgets all offsets, because the name now belongs to another file. */
  forgetBytes(): void
  clear(): void
  /** Returns the approximate offset of a line, or null if it is not in the current file. */
  offsetOf(number: number): number | null
}

/** Limits of the loaded lines. */
export interface HeldLimits {
  maxLines?: number
  /** Maximum number of UTF-16 code units (two bytes each). */
  maxCharacters?: number
}

/** Creates an empty set of lines. */
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
      // A note before the first line belongs to no file.
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
      // One splice for all: lines that arrived one by one are many parts.
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
