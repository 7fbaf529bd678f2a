/*
 * Rewrites the ranges in www/terminal/cells.ts: node dist/test/support/make-widths.js, with a Node whose Unicode is that of
 * the package get-east-asian-width, which comes with tap and has the table that JavaScript lacks.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { eastAsianWidthType } from 'get-east-asian-width'

const file = new URL('../../../www/terminal/cells.ts', import.meta.url)
const firstUnusual = 0x300
const last = 0x10ffff
const maxLineLength = 112

/**
 * Marks that enclose the following digits (Prepended_Concatenation_Mark). They are visible format characters.
 */
const prepended = new Set([
  0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6dd, 0x70f, 0x890, 0x891, 0x8e2, 0x110bd, 0x110cd
])

function isZero(code: number): boolean {
  if ((code >= 0x1160 && code <= 0x11ff) || (code >= 0xd7b0 && code <= 0xd7ff)) return true
  return /^[\p{Mn}\p{Me}\p{Cf}]$/u.test(String.fromCodePoint(code)) && !prepended.has(code)
}

function isDouble(code: number): boolean {
  return ['fullwidth', 'wide'].includes(eastAsianWidthType(code)) && !isZero(code)
}

/** The text that www/terminal/cells.ts contains, cut into lines of source. */
function ranges(has: (code: number) => boolean): string {
  const words: string[] = []
  let end = 0
  for (let code = firstUnusual; code <= last; code++) {
    if (!has(code)) continue
    const from = code
    while (code < last && has(code + 1)) code++
    const length = code + 1 - from
    words.push((from - end).toString(36) + (length === 1 ? '' : `:${length.toString(36)}`))
    end = code + 1
  }
  const lines = ['']
  for (const word of words) {
    if (`${lines.at(-1)}${word}`.length > maxLineLength - 6) lines.push('')
    lines[lines.length - 1] += `${word} `
  }
  return lines.map((line, at) => `  '${at === lines.length - 1 ? line.trimEnd() : line}'`).join(' +\n')
}

const source = readFileSync(file, 'utf8')
const from = source.indexOf('/*\n * Written by test/support/make-widths.ts')
const end = source.indexOf('const zero = decode(')

writeFileSync(
  file,
  `${source.slice(0, from)}/*
 * Written by test/support/make-widths.ts from Unicode ${process.versions['unicode']}. Ranges in ascending order, in base 36. Each is its distance
 * from the end of the previous range, followed by a colon and its length if that is not 1.
 */

/** General categories Mn, Me and Cf, except the soft hyphen and the prepended marks; Hangul vowels and finals. */
const zeroWidthRanges =
${ranges(isZero)}

/** East_Asian_Width Wide and Fullwidth (UAX #11), which includes emoji, except the code points above. */
const doubleWidthRanges =
${ranges(isDouble)}

${source.slice(end)}`
)
