/*
 * Finds hits in a block of whole lines, in one of three ways. From the fastest to the most general (bench/search):
 *
 *   bytes    searches for the text with `Buffer.indexOf` (needle.ts)
 *   filter   does the same for a text that every hit must contain; the expression runs on the lines that contain it
 *   whole    runs the expression once over the whole block: over its bytes if possible, otherwise over its text
 */
import * as buffer from 'node:buffer'
import { createNeedle, type Needle } from './needle.js'
import type { Pattern } from './pattern.js'
import { lineText, newline } from '../read/text.js'

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

/** Creates a scanner for a pattern. */
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
