/*
 * Converts bytes of a log to lines: where they may be cut, how they are decoded, and when they are not text.
 */

/** The byte that ends a line. */
export const newline = 10
const carriageReturn = 13

/** Maximum number of continuation bytes in one UTF-8 character. */
const maxContinuations = 3

/**
 * Returns the lines of whole text, without `
 * ` or `\r
 * `. Text after the last newline is a line too, unless it is empty. Invalid bytes become U+FFFD. A hole before
 * a line is left out, see `withoutHole`.
 */
export function linesOf(bytes: Buffer): string[] {
  const text = bytes.subarray(leadingZeros(bytes)).toString('utf8')
  if (text === '') return []
  const lines = text.split('\n')
  if (text.endsWith('\n')) lines.pop()
  if (!/[\r\0]/.test(text)) return lines
  return lines.map(line => withoutHole(line.endsWith('\r') ? line.slice(0, -1) : line))
}

/**
 * Returns a line without the zeros at its start. Nobody wrote them: a file was truncated, and its writer continued at
 * its old position.
 */
export function withoutHole(line: string): string {
  return line.startsWith('\0') ? line.replace(/^\0+/, '') : line
}

/** Returns the line from `from` to `to`, which is its newline or the end, without a final `\r`. */
export function lineText(bytes: Buffer, from: number, to: number): string {
  const end = to > from && bytes[to - 1] === carriageReturn ? to - 1 : to
  return withoutHole(bytes.toString('utf8', from, end))
}

/** Moves a cut back to the start of a character. Returns the cut itself if there is none within reach (not UTF-8). */
export function cutBefore(bytes: Buffer, cut: number): number {
  for (let at = cut; at >= 0 && cut - at <= maxContinuations; at--) if (startsCharacter(bytes[at])) return at
  return cut
}

/**
 * Moves a cut forward to the start of a character or to the end. Returns the cut itself if there is none within reach.
 */
export function cutAfter(bytes: Buffer, cut: number): number {
  for (let at = cut; at <= bytes.length && at - cut <= maxContinuations; at++) if (startsCharacter(bytes[at])) return at
  return cut
}

function startsCharacter(byte: number | undefined): boolean {
  return byte === undefined || (byte & 0xc0) !== 0x80
}

/** Number of bytes that `isBinary` checks at the start and at the end. */
export const sampleBytes = 32 * 1024
/** Control characters that text does not use. It uses backspace, tab, line ends, form feed and escape. */
const controls = /[\0-\x07\x0e-\x1a\x1c-\x1f\x7f]/g

/**
 * Whether bytes are not text: more than one character in a hundred is a control character. A single NUL must not hide a
 * log, because then anyone who can write one line could hide all others. Zeros before a line are a hole (`withoutHole`).
 */
export function isBinary(bytes: Buffer): boolean {
  const sample = (from: number, to?: number): string => bytes.toString('latin1', from, to).replace(/(^|\n)\0+/g, '$1')
  const head = sample(0, sampleBytes)
  const tail = bytes.length <= sampleBytes ? '' : sample(Math.max(sampleBytes, bytes.length - sampleBytes))
  if (head.length + tail.length === 0) return bytes.length > 0
  const count = (head.match(controls)?.length ?? 0) + (tail.match(controls)?.length ?? 0)
  return count * 100 >= head.length + tail.length
}

/** Returns how many zeros the bytes begin with. */
function leadingZeros(bytes: Buffer): number {
  if (bytes[0] !== 0) return 0
  const rest = bytes.toString('latin1').search(/[^\0]/)
  return rest === -1 ? bytes.length : rest
}
