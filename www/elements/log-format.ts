import { parseAnsi, plainStyle, stripAnsi } from './ansi.js'
import type { Span, TextStyle } from './ansi.js'
import { jsonColumns, jsonSpans, levelStyle } from './json-line.js'
import { levelIn, levelOfLine } from '../state/log-level.js'
import type { LogLevel } from '../state/log-level.js'
import { numberWords, t } from '../words/t.js'

/** How the text of a line becomes what is seen. */
export interface LineFormat {
  /** What is seen, without colours: what rows, marks and selections go by. */
  shown(text: string): string
  /** The same in colours, of a line that begins in `style`. */
  spans(text: string, style: TextStyle): Span[]
  /** The style that the next line begins in. */
  after(text: string, style: TextStyle): TextStyle
  /** The line unfolded, row by row; null: there is nothing more to see of it. */
  unfolded(text: string): string[] | null
  /** The level that the line says; null: none. Absent: lines are not marked by it. */
  level?(text: string): LogLevel | null
}

/** What is drawn of a line; the whole can be copied and downloaded. */
const maxShown = 5000

function cut(text: string): string {
  if (text.length <= maxShown) return text
  return `${text.slice(0, maxShown)} … ${t('{count} characters in all', { count: numberWords(text.length) })}`
}

/** Lines as they are, in the colours they ask for. */
export const plainFormat: LineFormat = {
  shown: text => cut(stripAnsi(text)),
  spans(text, style) {
    const shown = stripAnsi(text)
    return shown.length > maxShown ? [{ text: cut(shown), style }] : parseAnsi(text, style).spans
  },
  after: (text, style) => parseAnsi(text, style).style,
  unfolded: () => null
}

/** The same, and where lines have no colours, the word of their level has its own. */
export const logFormat: LineFormat = {
  ...plainFormat,
  spans(text, style) {
    const spans = plainFormat.spans(text, style)
    const [only] = spans
    const found = spans.length === 1 && only !== undefined && isPlain(only.style) ? levelIn(only.text) : null
    if (found === null || only === undefined || found.from === found.to) return spans
    const parts = [
      { text: only.text.slice(0, found.from), style: plainStyle },
      { text: only.text.slice(found.from, found.to), style: levelStyle(found.level.toUpperCase()) },
      { text: only.text.slice(found.to), style: plainStyle }
    ]
    return parts.filter(part => part.text !== '')
  },
  level: levelOfLine
}

const isPlain = (style: TextStyle): boolean => JSON.stringify(style) === JSON.stringify(plainStyle)

/** One JSON object a line, as columns: time, level, message, the rest. What is no JSON is shown as it is. */
export const jsonFormat: LineFormat = columnFormat({ isFolded: false })

/** The same for lines of several logs, of which some may be JSON: of the rest of a line only the names are shown. */
export const mergedFormat: LineFormat = columnFormat({ isFolded: true })

function columnFormat(options: { isFolded: boolean }): LineFormat {
  const spansOf = (text: string): Span[] | null => jsonSpans(jsonColumns(text), options)
  return {
    shown(text) {
      const spans = spansOf(text)
      return spans === null ? logFormat.shown(text) : cut(spans.map(span => span.text).join(''))
    },
    spans(text, style) {
      const spans = spansOf(text)
      if (spans === null) return logFormat.spans(text, style)
      const shown = spans.map(span => span.text).join('')
      return shown.length > maxShown ? [{ text: cut(shown), style: plainStyle }] : spans
    },
    after: (_text, style) => style,
    unfolded(text) {
      const columns = jsonColumns(text)
      return columns === null ? null : JSON.stringify(columns.whole, null, 2).split('\n')
    },
    level: levelOfLine
  }
}
