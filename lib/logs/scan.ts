/*
 * Finding hits in a block of whole lines. Three ways, from the fastest to the most general (bench/search):
 *
 *   bytes    the text is looked for with `Buffer.indexOf` (needle.ts)
 *   filter   the same for a text that every hit must contain; the expression runs on the lines where it occurs
 *   whole    the expression runs once over the whole block: over its bytes where that does, else over what they mean
 */
import * as buffer from 'node:buffer'
import { createNeedle, type Needle } from './needle.js'
import type { Pattern } from './pattern.js'
import { lineText, newline } from './text.js'

/** Called for each line that hits, with the place of the match; false: enough. */
export type OnHit = (lineStart: number, lineEnd: number, matchAt: number) => boolean

export interface Scanner {
  /** Looks at the lines in `bytes`, which ends with the end of one. */
  scan(bytes: Buffer, onHit: OnHit): void
}

/** Where the text occurs more often than this, running the expression on single lines costs more than on the block. */
const denseBytes = 200
const minCandidates = 200
/**
 * Decoded at once, to twice as much. A text of 128 KiB is too large for V8's young generation: its pages are taken from
 * the system and given back each time, and decoding costs seven times as much. measured: bench/search
 */
const textBytes = 32 * 1024
/** Looked at to learn which bytes are rare. */
const sampleBytes = 64 * 1024

export function createScanner(pattern: Pattern): Scanner {
  const { source, flags, bytewise, literal, isLiteral, ignoresCase } = pattern
  const inLine = new RegExp(source, flags)
  const inBlock = new RegExp(bytewise ?? source, `${flags}g`)
  /** Null: there is none that is worth it. */
  let needle: Needle | null | undefined
  let candidates = 0
  let filteredBytes = 0
  let isDense = false

  /** The line's match, as bytes from the line's start; -1: none. */
  function matchIn(bytes: Buffer, start: number, end: number): number {
    const line = lineText(bytes, start, end)
    const match = inLine.exec(line)
    if (match === null) return -1
    return match.index === 0 ? 0 : Buffer.byteLength(line.slice(0, match.index))
  }

  function scanBytes(bytes: Buffer, { finder }: Needle, onHit: OnHit): void {
    const find = finder(bytes)
    filteredBytes += bytes.length
    for (let start = find(0); start !== -1;) {
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
    for (let from = 0; from < bytes.length && goesOn;) {
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
      const [lineStart, lineEnd] = place === null
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
 * The lines of a text that was decoded from UTF-8, as places in its bytes. Decoding makes and loses no newline, so both
 * are gone through side by side; an invalid byte, which is one byte here and three there, shifts nothing.
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
