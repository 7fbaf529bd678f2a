/* Bytes of a log as lines: where they may be cut, how they are decoded, and when they are no text at all. */

export const newline = 10
const carriageReturn = 13

/** The longest sequence of UTF-8, less its first byte. */
const maxContinuations = 3

/**
 * Lines of whole text: without `\n` or `\r\n`; what follows the last newline is a line, too, unless it is empty. Invalid
 * bytes become U+FFFD. The zeros that a truncated file begins with, when its writer goes on at its old place, are left
 * out.
 */
export function linesOf(bytes: Buffer): string[] {
  const text = bytes.subarray(leadingZeros(bytes)).toString('utf8')
  if (text === '') return []
  const lines = text.split('\n')
  if (text.endsWith('\n')) lines.pop()
  if (!text.includes('\r')) return lines
  return lines.map(line => (line.endsWith('\r') ? line.slice(0, -1) : line))
}

/** The line at `from` up to `to`, which is its newline or the end, without a `\r` at its end. */
export function lineText(bytes: Buffer, from: number, to: number): string {
  const end = to > from && bytes[to - 1] === carriageReturn ? to - 1 : to
  return bytes.toString('utf8', from, end)
}

/** A cut moved back to where a character starts; where that is not within reach (no UTF-8), the cut itself. */
export function cutBefore(bytes: Buffer, cut: number): number {
  for (let at = cut; at >= 0 && cut - at <= maxContinuations; at--) if (startsCharacter(bytes[at])) return at
  return cut
}

/** A cut moved on to where a character starts, or to the end; where that is not within reach, the cut itself. */
export function cutAfter(bytes: Buffer, cut: number): number {
  for (let at = cut; at <= bytes.length && at - cut <= maxContinuations; at++) if (startsCharacter(bytes[at])) return at
  return cut
}

function startsCharacter(byte: number | undefined): boolean {
  return byte === undefined || (byte & 0xc0) !== 0x80
}

/** Looked at, from the start and from the end. */
const sampleBytes = 32 * 1024
/** What text has no use for; backspace, tab, line ends, form feed and escape it has. */
const controls = /[\0-\x07\x0e-\x1a\x1c-\x1f\x7f]/g

/**
 * Whether bytes are no text: control characters are more than one in a hundred. One stray NUL must not hide a log from
 * its reader, so whoever can write a line cannot hide the others. Zeros at the start are a hole (see `linesOf`).
 */
export function isBinary(bytes: Buffer): boolean {
  const zeros = leadingZeros(bytes)
  const rest = bytes.subarray(zeros)
  if (rest.length === 0) return zeros > 0
  const head = rest.toString('latin1', 0, sampleBytes)
  const tail = rest.length <= sampleBytes ? '' : rest.toString('latin1', Math.max(sampleBytes, rest.length - sampleBytes))
  const count = (head.match(controls)?.length ?? 0) + (tail.match(controls)?.length ?? 0)
  return count * 100 >= head.length + tail.length
}

/** How many zeros the bytes begin with. */
function leadingZeros(bytes: Buffer): number {
  if (bytes[0] !== 0) return 0
  const rest = bytes.toString('latin1').search(/[^\0]/)
  return rest === -1 ? bytes.length : rest
}


