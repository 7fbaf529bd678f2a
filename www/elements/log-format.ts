import { parseAnsi, plainStyle, stripAnsi } from './ansi.js'
import type { Span, TextStyle } from './ansi.js'
import { jsonColumns, jsonSpans } from './json-line.js'
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

/** One JSON object a line, as columns: time, level, message, the rest. What is no JSON is shown as it is. */
export const jsonFormat: LineFormat = {
  shown(text) {
    const spans = jsonSpans(jsonColumns(text))
    return spans === null ? plainFormat.shown(text) : cut(spans.map(span => span.text).join(''))
  },
  spans(text, style) {
    const spans = jsonSpans(jsonColumns(text))
    if (spans === null) return plainFormat.spans(text, style)
    const shown = spans.map(span => span.text).join('')
    return shown.length > maxShown ? [{ text: cut(shown), style: plainStyle }] : spans
  },
  after: (_text, style) => style,
  unfolded(text) {
    const columns = jsonColumns(text)
    return columns === null ? null : JSON.stringify(columns.whole, null, 2).split('\n')
  }
}
