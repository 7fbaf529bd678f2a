import { leadOutside } from '../../dom/address.js'
import type { LogLine } from '../../state/log-text.js'
import type { Color, Span, TextStyle } from './ansi.js'
import type { LineFormat } from './log-format.js'
import { hitsIn, linksIn, piecesOf, type Piece } from './log-pieces.js'
import { clockWords, exactWords } from '../base/words.js'

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
