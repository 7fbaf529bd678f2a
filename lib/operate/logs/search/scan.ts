/*
 * Finds hits in a block of whole lines, in one of three ways. From the fastest to the most general (bench/search):
 *
 *   bytes    searches for the text with `Buffer.indexOf`
 *   filter   does the same for a text that every hit must contain; the expression runs on the lines that contain it
 *   whole    runs the expression once over the whole block: over its bytes if possible, otherwise over its text
 */

import * as buffer from 'node:buffer'
import { lineText, newline } from '../read/contents.js'
import { endOfSequences } from '../../../base/shared/log-line.js'
import type { Pattern } from './pattern.js'

/** Called for each matching line, with the position of the match. Returns false to stop. */
export type OnHit = (lineStart: number, lineEnd: number, matchAt: number) => boolean

/** Searches blocks for one pattern. */
export interface Scanner {
  /** Scans the lines in `bytes`, which ends with the end of a line. */
  scan(bytes: Buffer, onHit: OnHit): void
}

/**
 * If the text occurs more often than once in this many bytes, it is faster to run the expression on the block than on
 * single lines.
 */
const denseBytes = 200
const minCandidates = 200
/**
 * Number of bytes that are decoded at once, to a text of twice that size. A text of 128 KiB is too large for V8's young
 * generation: its pages are taken from the system and given back each time, and decoding takes seven times as long.
 * measured: bench/search
 */
const textBytes = 32 * 1024
/** Size of the sample that shows which bytes are rare. */
const sampleBytes = 64 * 1024

export function createScanner(pattern: Pattern): Scanner {
  const { source, flags, bytewise, literal, isLiteral, ignoresCase } = pattern
  const inLine = new RegExp(source, flags)
  const inBlock = new RegExp(bytewise ?? source, `${flags}g`)
  /** Null if no needle is worth it; undefined before the first block. */
  let needle: Needle | null | undefined
  let candidates = 0
  let filteredBytes = 0
  let isDense = false

  /** Returns the position of the match in bytes from the start of the line, or -1. */
  function matchIn(bytes: Buffer, start: number, end: number): number {
    const line = lineText(bytes, start, end)
    const match = inLine.exec(line)
    if (match === null) return -1
    return match.index === 0 ? 0 : Buffer.byteLength(line.slice(0, match.index))
  }

  function scanBytes(bytes: Buffer, { finder }: Needle, onHit: OnHit): void {
    const find = finder(bytes)
    filteredBytes += bytes.length
    for (let start = find(0); start !== -1; ) {
      const lineStart = start === 0 ? 0 : bytes.lastIndexOf(newline, start - 1) + 1
      const lineEnd = endOfLine(bytes, start)
      candidates++
      const match = isLiteral ? start - lineStart : matchIn(bytes, lineStart, lineEnd)
      if (match !== -1 && !onHit(lineStart, lineEnd, lineStart + match)) return
      start = lineEnd + 1 < bytes.length ? find(lineEnd + 1) : -1
    }
  }

  function scanWhole(bytes: Buffer, onHit: OnHit): void {
    let goesOn = true
    for (let from = 0; from < bytes.length && goesOn; ) {
      const to = Math.min(bytes.length, endOfLine(bytes, Math.min(bytes.length, from + textBytes)) + 1)
      const start = from
      scanText(bytes.subarray(from, to), (lineStart, lineEnd, matchAt) => {
        goesOn = onHit(start + lineStart, start + lineEnd, start + matchAt)
        return goesOn
      })
      from = to
    }
  }

  function scanText(bytes: Buffer, onHit: OnHit): void {
    const isSingle = bytewise !== null || (buffer.isAscii?.(bytes) ?? false)
    const text = isSingle ? bytes.toString('latin1') : bytes.toString('utf8')
    const place = isSingle ? null : createPlaces(bytes, text)
    inBlock.lastIndex = 0
    for (let match = inBlock.exec(text); match !== null; match = inBlock.exec(text)) {
      if (match.index === text.length && text.endsWith('\n')) return
      const [lineStart, lineEnd] =
        place === null
          ? [match.index === 0 ? 0 : text.lastIndexOf('\n', match.index - 1) + 1, endOfLine(bytes, match.index)]
          : place(match.index)
      const matched = matchIn(bytes, lineStart, lineEnd)
      if (matched !== -1 && !onHit(lineStart, lineEnd, lineStart + matched)) return
      const next = text.indexOf('\n', match.index)
      if (next === -1 || next + 1 >= text.length) return
      inBlock.lastIndex = next + 1
    }
  }

  return {
    scan(bytes, onHit) {
      if (bytes.length === 0) return
      if (needle === undefined) {
        needle = literal === '' ? null : createNeedle(literal, ignoresCase, bytes.subarray(0, sampleBytes))
      }
      if (needle === null || isDense) return scanWhole(bytes, onHit)
      scanBytes(bytes, needle, onHit)
      isDense = !isLiteral && candidates > minCandidates && filteredBytes / candidates < denseBytes
    }
  }
}

function endOfLine(bytes: Buffer, at: number): number {
  const end = bytes.indexOf(newline, at)
  return end === -1 ? bytes.length : end
}

/**
 * Returns a function that maps a position in decoded UTF-8 text to its line in the bytes. Decoding neither adds nor
 * removes newlines, so both are scanned side by side. An invalid byte is one byte here and three there, but that shifts
 * nothing.
 */
function createPlaces(bytes: Buffer, text: string): (index: number) => [start: number, end: number] {
  let textStart = 0
  let byteStart = 0
  return index => {
    for (let end = text.indexOf('\n', textStart); end !== -1 && end < index; end = text.indexOf('\n', textStart)) {
      textStart = end + 1
      byteStart = bytes.indexOf(newline, byteStart) + 1
    }
    return [byteStart, endOfLine(bytes, byteStart)]
  }
}

/*
 * Finds a text in bytes, faster than byte by byte. For texts of up to six bytes, `Buffer.indexOf` uses memchr to stop
 * at each occurrence of their first byte; the bytes between two stops cost almost nothing. So this searches for a
 * short run of the text, and compares the whole text where the run is found. A sample of the file shows which run has
 * the fewest stops.
 *
 * If case is ignored, each spelling of the run is searched separately, so the run contains at most two letters.
 *
 * Costs are counted in stops of about 15 ns. measured: bench/search
 */
/** A text prepared for searching. */
export interface Needle {
  /** Returns a function that finds the first occurrence in `bytes` at or after `from`, or -1. */
  finder(bytes: Buffer): (from: number) => number
}

/** For longer texts `indexOf` does not use memchr. */
const maxRunBytes = 6
const maxRunLetters = 2
/** Cost of one call of `indexOf`, for each occurrence of the run. */
const callCost = 12
/** Number of bytes between stops that cost as much as one stop. */
const bytesAStop = 1600
/** A regular expression that ignores case costs one stop for this many bytes. */
const expressionBytesAStop = 64

interface Run {
  /** Position of the run in the text. */
  ways: Buffer[]
  /** Its place in the text. */
  offset: number
}

/**
 * Prepares a text for searching in files that resemble the sample. If case is ignored, only ASCII letters of the text
 * may have two cases. Returns null if a regular expression is faster then.
 */
export function createNeedle(text: string, ignoresCase: boolean, sample: Buffer): Needle | null {
  const bytes = Buffer.from(text)
  const { ways, offset, cost } = cheapestRun(bytes, ignoresCase, sample)
  if (ignoresCase && cost * expressionBytesAStop > sample.length) return null
  const lower = text.toLowerCase()
  const isAll = ways.length === 1 && ways[0]?.length === bytes.length

  function isAt(block: Buffer, start: number): boolean {
    if (isAll) return true
    const end = start + bytes.length
    if (ignoresCase) return block.toString('utf8', start, end).toLowerCase() === lower
    return block.compare(bytes, 0, bytes.length, start, end) === 0
  }

  return {
    finder(block) {
      // The next occurrence of each spelling. A rare one is not searched again at each occurrence of another one.
      const next = ways.map(() => -1)
      return from => {
        for (let start = from; ; start++) {
          for (const [index, way] of ways.entries()) {
            if ((next[index] as number) >= start + offset) continue
            const found = block.indexOf(way, start + offset)
            next[index] = found === -1 ? Infinity : found
          }
          start = Math.min(...next) - offset
          if (start + bytes.length > block.length) return -1
          if (isAt(block, start)) return start
        }
      }
    }
  }
}

function cheapestRun(text: Buffer, ignoresCase: boolean, sample: Buffer): Run & { cost: number } {
  const counts = new Uint32Array(256)
  for (const byte of sample) counts[byte] = (counts[byte] as number) + 1
  let cheapest = { ways: [text], offset: 0, cost: Infinity }
  for (let offset = 0; offset < text.length; offset++) {
    const ways = ignoresCase ? waysToWrite(text, offset) : [text.subarray(offset, offset + maxRunBytes)]
    let cost = 0
    for (const way of ways) {
      cost += sample.length / bytesAStop + (counts[way[0] as number] as number)
      if (cost >= cheapest.cost) break
      cost += callCost * occurrences(way, sample)
    }
    if (cost < cheapest.cost) cheapest = { ways, offset, cost }
  }
  return cheapest
}

function waysToWrite(text: Buffer, offset: number): Buffer[] {
  let ways = ['']
  let letters = 0
  for (const character of text.toString('latin1', offset, offset + maxRunBytes)) {
    const both = /[a-z]/i.test(character) ? [character.toLowerCase(), character.toUpperCase()] : [character]
    letters += both.length - 1
    if (letters > maxRunLetters) break
    ways = ways.flatMap(way => both.map(one => way + one))
  }
  return ways.map(way => Buffer.from(way, 'latin1'))
}

function occurrences(bytes: Buffer, sample: Buffer): number {
  let count = 0
  for (let at = sample.indexOf(bytes); at !== -1; at = sample.indexOf(bytes, at + 1)) count++
  return count
}

/*
 * Lets a scanner see what a terminal shows: control sequences are left out (base/shared/log-line.ts), so that a word with
 * a colour in it is found, and `^` is before the first letter. The positions of hits are those in the file.
 */

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

/** Each byte is one character (latin1), so positions are those of bytes. Sequences are ASCII, and end with their line. */
function visibleBytes(bytes: Buffer) {
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

    /**
     * Returns the position in the file. If something was left out there, `first` is before it (the start of a line), and
     * `last` is after it.
     */
    placeOf(at: number, which: 'first' | 'last'): number {
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
