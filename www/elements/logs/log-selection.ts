import type { LogText } from '../../state/log-text.js'

/*
 * The selection in a log whose lines are mostly not on the page: two places, each a line and a column of its visible
 * text. Pure.
 */

/** A place between two characters. */
export interface TextPlace {
  /** Number of the line. */
  line: number
  column: number
}

/** A selection, from where it began to where it is now. */
export interface TextRange {
  anchor: TextPlace
  focus: TextPlace
}

const isBefore = (a: TextPlace, b: TextPlace): boolean => a.line < b.line || (a.line === b.line && a.column < b.column)

/** Returns the two places in text order. */
export function ordered({ anchor, focus }: TextRange): { from: TextPlace; to: TextPlace } {
  return isBefore(focus, anchor) ? { from: focus, to: anchor } : { from: anchor, to: focus }
}

/** Reports whether a selection contains no text. */
export function isEmpty({ anchor, focus }: TextRange): boolean {
  return anchor.line === focus.line && anchor.column === focus.column
}

/** Returns the range of all loaded lines. */
export function wholeRange(text: LogText, shown: (text: string) => string): TextRange | null {
  const last = text.lines.at(-1)
  if (last === undefined) return null
  return {
    anchor: { line: text.firstNumber, column: 0 },
    focus: { line: text.firstNumber + text.lines.length - 1, column: shown(last.text).length }
  }
}

/** Returns the selected visible text, line by line, without lines that were dropped meanwhile. */
export function selectedText(text: LogText, range: TextRange, shown: (text: string) => string): string {
  const { from, to } = ordered(range)
  const parts: string[] = []
  for (let number = Math.max(from.line, text.firstNumber); number <= to.line; number++) {
    const line = text.lines[number - text.firstNumber]
    if (line === undefined) break
    if (line.isNote === true) continue
    const words = shown(line.text)
    parts.push(words.slice(number === from.line ? from.column : 0, number === to.line ? to.column : words.length))
  }
  return parts.join('\n')
}

/** Returns the original lines that the range touches, with their colours. */
export function selectedLines(text: LogText, range: TextRange): string {
  const { from, to } = ordered(range)
  const first = Math.max(0, from.line - text.firstNumber)
  return text.lines
    .slice(first, to.line - text.firstNumber + 1)
    .filter(line => line.isNote !== true)
    .map(line => `${line.text}\n`)
    .join('')
}

/** Returns the word at a column, or the run of other characters. */
export function wordAround(text: string, column: number): { from: number; to: number } {
  const kindOf = (character: string | undefined): string =>
    character === undefined
      ? 'none'
      : /[\p{L}\p{N}_]/u.test(character)
        ? 'word'
        : /\s/.test(character)
          ? 'space'
          : 'other'
  let from = Math.min(column, text.length)
  const kind = kindOf(text[from] ?? text[from - 1])
  let to = from
  while (from > 0 && kindOf(text[from - 1]) === kind) from--
  while (to < text.length && kindOf(text[to]) === kind) to++
  return { from, to }
}
