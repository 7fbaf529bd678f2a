/* Finds the links and the search hits in a line. Pure. */
import { type Address, leadOutside, outsideAddress } from '../../dom/address.js'
import { type Color, type LineFormat, type Span, type TextStyle, plainStyle } from './log-format.js'
import type { LogLine, LogText } from '../../state/held-lines.js'
import { clockWords, exactWords } from '../base/words.js'

/** A part of a text, by character offsets. */
export interface Stretch {
  from: number
  to: number
}

/** A part of a line with one style. `href`: the address it links to. `isHit`: it matches the search. */
export interface Piece extends Span {
  href: Address | null
  isHit: boolean
}

/**
 * http and https only. A trailing punctuation mark, or a closing bracket without its opening bracket, is not part of
 * the link.
 */
const link = /\bhttps?:\/\/[^\s<>"'`\\^{}|\u0000-\u001f]+/gi
const closers: Readonly<Record<string, string>> = { ')': '(', ']': '[' }
/** Limit for the searched characters: a pathological expression or line must not block the page. */
const maxSearched = 5000
const maxHits = 200

export function linksIn(text: string): Stretch[] {
  if (!text.includes('://')) return []
  return [...text.matchAll(link)].map(({ 0: found, index }) => ({ from: index, to: index + lengthOf(found) }))
}

function lengthOf(address: string): number {
  let end = address.length
  const surplus = new Map(Object.entries(closers).map(([last, opener]) => [last, surplusOf(address, last, opener)]))
  for (; end > 0; end--) {
    const last = address[end - 1] as string
    const more = surplus.get(last)
    if (more !== undefined) {
      if (more <= 0) return end
      surplus.set(last, more - 1)
    } else if (!/[.,;:!?*_~]/.test(last)) {
      return end
    }
  }
  return end
}

/** Returns how many more closing brackets than opening ones a text has. */
function surplusOf(text: string, closing: string, opening: string): number {
  return text.split(closing).length - text.split(opening).length
}

/** Returns the matches of the pattern, which must be global. Ignores empty matches. */
export function hitsIn(text: string, pattern: RegExp): Stretch[] {
  const found: Stretch[] = []
  for (const { 0: hit, index } of text.slice(0, maxSearched).matchAll(pattern)) {
    if (hit !== '') found.push({ from: index, to: index + hit.length })
    if (found.length === maxHits) break
  }
  return found
}

/** Returns a function that finds the stretch at an offset. It is called with ascending offsets. */
function finder(stretches: readonly Stretch[]): (at: number) => Stretch | undefined {
  let next = 0
  return at => {
    while (next < stretches.length && (stretches[next] as Stretch).to <= at) next++
    const found = stretches[next]
    return found !== undefined && found.from <= at ? found : undefined
  }
}

/** Splits the spans where a link or a hit begins or ends. */
export function piecesOf(spans: readonly Span[], links: readonly Stretch[], hits: readonly Stretch[]): Piece[] {
  const bounds = [...links, ...hits].flatMap(({ from, to }) => [from, to]).sort((a, b) => a - b)
  const whole = spans.map(span => span.text).join('')
  const [linkAt, hitAt] = [finder(links), finder(hits)]
  const pieces: Piece[] = []
  let at = 0
  let bound = 0
  for (const { text, style } of spans) {
    const end = at + text.length
    while (at < end) {
      while (bound < bounds.length && (bounds[bound] as number) <= at) bound++
      const to = Math.min(end, bounds[bound] ?? end)
      const led = linkAt(at)
      pieces.push({
        text: whole.slice(at, to),
        style,
        href: style.href ?? (led === undefined ? null : outsideAddress(whole.slice(led.from, led.to))),
        isHit: hitAt(at) !== undefined
      })
      at = to
    }
  }
  return pieces
}

/** How lines are drawn. */
export interface LineLook {
  format: LineFormat
  hasTimes: boolean
  /** A global expression. Its hits are marked. */
  pattern: RegExp | null
  /** The logs that the lines belong to if there are several. */
  sources: ReadonlyArray<{ words: string }>
}

/** Returns a line as a node: its source and time if requested, and its text in its colours. Never parses markup. */
export function lineNode(
  line: LogLine,
  style: TextStyle,
  { format, hasTimes, pattern, sources }: LineLook
): HTMLElement {
  const node = document.createElement('div')
  node.className = 'line'
  if (line.isNote === true) {
    node.classList.add('note')
    node.textContent = line.text
    return node
  }
  const level = format.level?.(line.text) ?? null
  if (level !== null) node.dataset['level'] = level
  const source = line.source === undefined ? undefined : sources[line.source]
  if (source !== undefined) node.append(sourceNode(source.words, line.source as number))
  if (hasTimes && line.at !== '') {
    const time = document.createElement('time')
    time.textContent = clockWords(line.at)
    time.title = exactWords(line.at)
    node.append(time)
  }
  const text = document.createElement('span')
  text.className = 'text'
  text.append(...textNodes(format.spans(line.text, style), pattern))
  node.append(text)
  return node
}

/** Returns the rows of an unfolded line. */
export function unfoldedNode(rows: readonly string[]): HTMLElement {
  const node = document.createElement('div')
  node.className = 'unfolded'
  node.textContent = rows.join('\n')
  return node
}

function sourceNode(words: string, source: number): HTMLElement {
  const node = document.createElement('span')
  node.className = 'source'
  node.dataset['source'] = String(source)
  node.textContent = words
  node.title = words
  return node
}

function textNodes(spans: Span[], pattern: RegExp | null): Node[] {
  const whole = spans.length === 1 ? (spans[0] as Span).text : spans.map(span => span.text).join('')
  const links = linksIn(whole)
  const hits = pattern === null ? [] : hitsIn(whole, pattern)
  const hasHrefs = spans.some(({ style }) => style.href !== null)
  if (links.length === 0 && hits.length === 0 && !hasHrefs) return spans.map(styledNode)
  return piecesOf(spans, links, hits).map(pieceNode)
}

function pieceNode(piece: Piece): Node {
  let node = styledNode(piece)
  if (piece.isHit) {
    const mark = document.createElement('mark')
    mark.append(node)
    node = mark
  }
  if (piece.href === null) return node
  const anchor = document.createElement('a')
  leadOutside(anchor, piece.href)
  // The text of a hyperlink can differ from its address.
  if (piece.style.href !== null) anchor.title = String(piece.href)
  anchor.append(node)
  return anchor
}

/**
 * Returns text in one style. Colours are set on the node, because the content security policy forbids style attributes.
 */
function styledNode({ text, style }: Span): Node {
  const isPlain =
    style.foreground === null &&
    style.background === null &&
    !style.isBold &&
    !style.isDim &&
    !style.isItalic &&
    !style.isUnderlined &&
    !style.isInverse &&
    !style.isStruck
  if (isPlain) return new Text(text)
  const node = document.createElement('span')
  node.textContent = text
  const kinds = {
    bold: style.isBold,
    dim: style.isDim,
    italic: style.isItalic,
    underline: style.isUnderlined,
    struck: style.isStruck
  }
  for (const [name, isOn] of Object.entries(kinds)) if (isOn) node.classList.add(name)
  const foreground = cssColor(style.foreground)
  const background = cssColor(style.background)
  node.style.color = style.isInverse ? background || 'var(--log-ground)' : foreground
  node.style.backgroundColor = style.isInverse ? foreground || 'var(--log-text)' : background
  return node
}

function cssColor(color: Color): string {
  if (color === null) return ''
  return typeof color === 'number' ? `var(--ansi-${color})` : color
}

/*
 * What a view knows about each loaded line: its width in cells and the style in which it begins. Divided by the columns
 * of the view, cells become rows, so the position of a line is known without drawing it. The data of a line is kept
 * while lines are added or removed at both ends. A change of the width is a sum over numbers.
 */

/* Measures text in cells, so that the rows of a line are known before it is drawn. */

const tabCells = 8
// Combining marks and joiners take no cell; East Asian wide characters and emoji take two (UAX #11, abridged).
// biome-ignore lint/suspicious/noMisleadingCharacterClass: each of these characters is matched on its own
const zeroWidth = /^[\p{Mn}\p{Me}\u200b-\u200f\ufe00-\ufe0f]$/u
const doubleWidth = new RegExp(
  '^[\\u1100-\\u115f\\u2e80-\\u303e\\u3041-\\ua4cf\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe30-\\ufe6f\\uff00-\\uff60' +
    '\\uffe0-\\uffe6\\u{1f300}-\\u{1f64f}\\u{1f680}-\\u{1f9ff}\\u{20000}-\\u{3fffd}]$',
  'u'
)
const narrowText = /^[\x20-\x7e]*$/

/** Returns the number of cells of a text in a monospaced font. */
export function cellsOf(text: string): number {
  if (narrowText.test(text)) return text.length
  let cells = 0
  for (const character of text) {
    if (character === '\t') cells += tabCells - (cells % tabCells)
    else if (!zeroWidth.test(character)) cells += doubleWidth.test(character) ? 2 : 1
  }
  return cells
}

/** The positions of the lines of a log. */
export type LogIndex = ReturnType<typeof createLogIndex>

/** Number of lines between two readings of the clock. */
const batch = 500

/** Creates an empty index of lines in a format. */
export function createLogIndex(format: LineFormat) {
  let first = 0
  let epoch: number | undefined
  let revision = 0
  let columns: number | null = null
  let cells: number[] = []
  /** The row after each line. Rows that were dropped at the start still count. */
  let ends: number[] = []
  let rowsGivenUp = 0
  let begun = new Map<number, TextStyle>()
  let style = plainStyle
  const unfolded = new Map<number, number>()

  const rowsOf = (number: number, count: number): number =>
    (columns === null ? 1 : Math.max(1, Math.ceil(count / columns))) + (unfolded.get(number) ?? 0)

  const sum = (): void => {
    let row = 0
    rowsGivenUp = 0
    ends = cells.map((count, index) => (row += rowsOf(first + index, count)))
    revision++
  }
  const clear = (number: number): void => {
    first = number
    cells = []
    begun = new Map()
    unfolded.clear()
    style = plainStyle
    sum()
  }
  const dropHead = (count: number): void => {
    for (let number = first; number < first + count; number++) begun.delete(number)
    rowsGivenUp = ends[count - 1] as number
    cells.splice(0, count)
    ends.splice(0, count)
    first += count
    revision++
  }
  const dropTail = (count: number): void => {
    cells.splice(cells.length - count)
    ends.splice(ends.length - count)
    style = plainStyle
    revision++
  }
  const cellsIn = (line: LogLine): number => (line.isNote === true ? 0 : cellsOf(format.shown(line.text)))

  /**
   * A colour continues on the next line, but lines that were loaded later do not change the colour of the lines after
   * them.
   */
  const putBefore = (lines: readonly LogLine[], number: number): void => {
    let before = plainStyle
    const counts = lines.map((line, index) => {
      if (before !== plainStyle) begun.set(number + index, before)
      before = format.after(line.text, before)
      return cellsIn(line)
    })
    cells = counts.concat(cells)
    first = number
    sum()
  }
  const put = (line: LogLine): void => {
    const number = first + cells.length
    if (line.isNote === true) style = plainStyle
    else if (style !== plainStyle) begun.set(number, style)
    if (line.isNote !== true) style = format.after(line.text, style)
    const count = cellsIn(line)
    cells.push(count)
    ends.push((ends.at(-1) ?? rowsGivenUp) + rowsOf(number, count))
  }

  return {
    /** Number of indexed lines and rows. */
    get lines() {
      return cells.length
    },
    get rows() {
      return (ends.at(-1) ?? rowsGivenUp) - rowsGivenUp
    },

    /** Number of the first indexed line. */
    get firstNumber() {
      return first
    },

    /** Changes whenever rows have moved. */
    get revision() {
      return revision
    },

    /** Indexes changed lines for at most `withinMs`. Returns `part` if there is more to index. */
    read(text: LogText, withinMs: number): 'whole' | 'part' {
      const untilMs = performance.now() + withinMs
      const { lines, firstNumber } = text
      const end = firstNumber + lines.length
      if (text.epoch !== epoch || firstNumber >= first + cells.length || end <= first) clear(firstNumber)
      epoch = text.epoch
      if (firstNumber > first) dropHead(firstNumber - first)
      if (end < first + cells.length) dropTail(first + cells.length - end)
      if (firstNumber < first) putBefore(lines.slice(0, first - firstNumber), firstNumber)
      while (cells.length < lines.length) {
        const to = Math.min(lines.length, cells.length + batch)
        while (cells.length < to) put(lines[cells.length] as LogLine)
        if (performance.now() > untilMs && cells.length < lines.length) return 'part'
      }
      return 'whole'
    },

    /** Null if lines do not wrap: each line is one row. */
    wrapAt(next: number | null): void {
      if (next === columns) return
      columns = next
      sum()
    },

    /** Sets the number of extra rows of an unfolded line. */
    unfold(line: number, rows: number): void {
      if (rows === 0) unfolded.delete(line)
      else unfolded.set(line, rows)
      sum()
    },

    /** Returns the first row of a line, by the number of the line. */
    rowOf(line: number): number {
      const index = Math.min(line - first, cells.length) - 1
      return index < 0 ? 0 : (ends[index] as number) - rowsGivenUp
    },

    /** Returns the number of the line that contains a row. */
    lineAt(row: number): number {
      let low = 0
      let high = Math.max(0, ends.length - 1)
      while (low < high) {
        const middle = (low + high) >> 1
        if ((ends[middle] as number) - rowsGivenUp > row) high = middle
        else low = middle + 1
      }
      return first + low
    },
    styleOf: (line: number): TextStyle => begun.get(line) ?? plainStyle
  }
}
