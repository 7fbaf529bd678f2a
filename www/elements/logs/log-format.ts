import { parseAnsi, plainStyle, stripAnsi, type Span, type TextStyle } from './ansi.js'
import { jsonColumns, jsonSpans, levelStyle } from './json-line.js'
import { levelIn, levelOfLine, type LogLevel } from '../../shared/log-line.js'
import { numberWords, t } from '../../words/t.js'

/** Converts the text of a line into what is displayed. */
export interface LineFormat {
  /** Returns the visible text without colours. Rows, hits and selections refer to it. */
  shown(text: string): string
  /** Returns the visible text in colours for a line that begins in `style`. */
  spans(text: string, style: TextStyle): Span[]
  /** Returns the style in which the next line begins. */
  after(text: string, style: TextStyle): TextStyle
  /** Returns the rows of the unfolded line, or null if there is nothing more to show. */
  unfolded(text: string): string[] | null
  /** Returns the level of the line, or null. If absent, lines are not marked by level. */
  level?(text: string): LogLevel | null
}

/** Maximum number of characters of a line that are drawn. The whole line can be copied and downloaded. */
const maxShown = 5000

function cut(text: string): string {
  if (text.length <= maxShown) return text
  return `${text.slice(0, maxShown)} … ${t('{count} characters in total', { count: numberWords(text.length) })}`
}

/** Shows lines unchanged, in their own colours. */
export const plainFormat: LineFormat = {
  shown: text => cut(stripAnsi(text)),
  spans(text, style) {
    const shown = stripAnsi(text)
    return shown.length > maxShown ? [{ text: cut(shown), style }] : parseAnsi(text, style).spans
  },
  after: (text, style) => parseAnsi(text, style).style,
  unfolded: () => null
}

/** Like plainFormat; in a line without colours, the word of its level is coloured. */
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

/** Shows one JSON object per line as columns: time, level, message, other fields. Other lines are shown unchanged. */
export const jsonFormat: LineFormat = columnFormat({ isFolded: false })

/** Like jsonFormat, for lines of several logs: of the other fields, only the names are shown. */
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
