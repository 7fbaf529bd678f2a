/*
 * Lets a scanner see what a terminal shows: control sequences are left out (shared/visible-text.ts), so that a word with
 * a colour in it is found, and `^` is before the first letter. The positions of hits are those in the file.
 */
import { endOfSequences } from '../../shared/visible-text.js'
import type { Scanner } from './scan.js'

const escape = 0x1b

/** Returns a scanner that sees visible text only. Blocks without control sequences are scanned as they are. */
export function visibleScanner(scanner: Scanner): Scanner {
  return {
    scan(bytes, onHit) {
      if (!bytes.includes(escape)) return scanner.scan(bytes, onHit)
      const { shown, placeOf } = visibleBytes(bytes)
      scanner.scan(shown, (lineStart, lineEnd, matchAt) =>
        onHit(placeOf(lineStart, 'first'), placeOf(lineEnd, 'last'), placeOf(matchAt, 'last'))
      )
    }
  }
}

interface Visible {
  shown: Buffer
  /**
   * Returns the position in the file. If something was left out there, `first` is before it (the start of a line), and
   * `last` is after it.
   */
  placeOf(at: number, which: 'first' | 'last'): number
}

/** Each byte is one character (latin1), so positions are those of bytes. Sequences are ASCII, and end with their line. */
function visibleBytes(bytes: Buffer): Visible {
  const shown = Buffer.allocUnsafe(bytes.length)
  /** Positions in `shown` where something was left out, and the number of bytes left out up to there. */
  const [cuts, missing] = [[] as number[], [] as number[]]
  let [length, left] = [0, 0]
  const text = bytes.toString('latin1')
  for (let from = 0; from < bytes.length; ) {
    const at = bytes.indexOf(escape, from)
    const end = at === -1 ? bytes.length : at
    length += bytes.copy(shown, length, from, end)
    if (at === -1) break
    // A run of sequences, or an escape that begins none: it is kept.
    const runEnd = endOfSequences(text, at)
    if (runEnd === at) {
      shown[length++] = escape
      from = at + 1
      continue
    }
    left += runEnd - at
    cuts.push(length)
    missing.push(left)
    from = runEnd
  }
  return {
    shown: shown.subarray(0, length),
    placeOf(at, which) {
      const index = countUpTo(cuts, which === 'first' ? at - 1 : at) - 1
      return at + (missing[index] ?? 0)
    }
  }
}

/** Returns how many of the ascending numbers are at most `limit`. */
function countUpTo(numbers: readonly number[], limit: number): number {
  let [low, high] = [0, numbers.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((numbers[middle] as number) <= limit) low = middle + 1
    else high = middle
  }
  return low
}
