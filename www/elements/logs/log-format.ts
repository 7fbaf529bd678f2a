/* Splits a line that is a JSON object into columns: pino, bunyan, winston, zap, slog, Logback and similar. Pure. */
import { type Address, outsideAddress } from '../../dom/address.js'
import { levelIn, levelOfLine, type LogLevel } from '../../shared/log-line.js'
import { numberWords, t } from '../../words/t.js'
import type { LogKind } from '../../../lib/model/log-source.js'

/*
 * Parses the colours of a line of output: SGR (ECMA-48 §8.3.117) with xterm's 256 colours and true colours, which
 * continue on the next line. Also keeps hyperlinks (OSC 8) to other servers. Removes every other control
 * sequence (CSI, OSC, single escapes, control characters). A carriage return restarts the line, as progress bars
 * expect.
 */

/** An index into the 256 colours, `#rrggbb`, or null for the default. */
export type Color = number | string | null

export interface TextStyle {
  readonly foreground: Color
  readonly background: Color
  readonly isBold: boolean
  readonly isDim: boolean
  readonly isItalic: boolean
  readonly isUnderlined: boolean
  readonly isInverse: boolean
  readonly isStruck: boolean
  /** Address of the hyperlink, or null. */
  readonly href: Address | null
}

/** A piece of a line in one style. */
export interface Span {
  text: string
  style: TextStyle
}

export const plainStyle: TextStyle = {
  foreground: null,
  background: null,
  isBold: false,
  isDim: false,
  isItalic: false,
  isUnderlined: false,
  isInverse: false,
  isStruck: false,
  href: null
}

/** Control sequences, each also in the form that the end of a line cuts off. */
const forms = [
  /\x1b\[([0-9:;<=>?]*)[ -/]*([@-~])/, // CSI, with its parameters and its final byte
  /\x1b\]([^\x07\x1b]*)(?:\x07|\x1b\\|$)/, // OSC, with its text: titles, links
  /\x1b[PX^_][^\x1b]*(?:\x1b\\|$)/, // DCS and similar
  /\x1b[ -/]*[0-OQ-WYZ\\`-~]/, // escapes of two characters
  /\x1b\[[0-9:;<=>?]*[ -/]*/, // an unterminated CSI
  /[\x00-\x08\x0b-\x1f\x7f]/ // control characters except tab and newline
]
const sequence = new RegExp(forms.map(form => form.source).join('|'), 'g')

/** Returns the spans of a line that begins in `style`, and the style in which the next line begins. */
export function parseAnsi(line: string, style: TextStyle): { spans: Span[]; style: TextStyle } {
  const text = afterReturn(line)
  if (!hasControl(text)) return { spans: text === '' ? [] : [{ text, style }], style }
  const spans: Span[] = []
  let current = style
  // A link ends with its line. Otherwise an unclosed link would cover the rest of the log.
  let href: Address | null = null
  let from = 0
  const take = (end: number): void => {
    if (end > from) spans.push({ text: text.slice(from, end), style: href === null ? current : { ...current, href } })
  }
  for (const found of text.matchAll(sequence)) {
    take(found.index)
    from = found.index + found[0].length
    if (found[3]?.startsWith('8;')) href = linkOf(found[3])
    if (found[2] === 'm' && !/[<=>?]/.test(found[1] as string)) current = select(current, found[1] as string)
  }
  take(text.length)
  return { spans, style: current }
}

/** Returns the address of `8;PARAMETERS;ADDRESS`, or null at the end of a link. */
function linkOf(command: string): Address | null {
  return outsideAddress(command.slice(command.indexOf(';', 2) + 1))
}

/** Returns the text without control sequences. */
export function stripAnsi(line: string): string {
  const text = afterReturn(line)
  return hasControl(text) ? text.replace(sequence, '') : text
}

function afterReturn(line: string): string {
  const end = line.endsWith('\r') ? line.length - 1 : line.length
  const at = line.lastIndexOf('\r', end - 1)
  return at === -1 && end === line.length ? line : line.slice(at + 1, end)
}

const control = /[\x00-\x08\x0b-\x1f\x7f]/
const hasControl = (text: string): boolean => control.test(text)

/** Applies one SGR sequence: parameters separated by `;`, sub-parameters by `:`. */
function select(style: TextStyle, parameters: string): TextStyle {
  let next = style
  const codes = parameters.split(';')
  for (let index = 0; index < codes.length; index++) {
    const [code, ...sub] = (codes[index] as string).split(':').map(Number) as [number, ...number[]]
    if (code === 38 || code === 48) {
      // `38:2::r:g:b` contains its components; `38;2;r;g;b` uses the following parameters.
      const given = sub.length > 0 ? sub : codes.slice(index + 1, index + 5).map(Number)
      const { color, used } = extended(given, sub.length > 0)
      if (sub.length === 0) index += used
      if (color !== undefined) next = { ...next, [code === 38 ? 'foreground' : 'background']: color }
      continue
    }
    next = single(next, code, sub)
  }
  return next
}

function single(style: TextStyle, code: number, sub: number[]): TextStyle {
  switch (code) {
    case 0:
      return plainStyle
    case 1:
      return { ...style, isBold: true }
    case 2:
      return { ...style, isDim: true }
    case 3:
      return { ...style, isItalic: true }
    case 4:
      return { ...style, isUnderlined: sub[0] !== 0 }
    case 7:
      return { ...style, isInverse: true }
    case 9:
      return { ...style, isStruck: true }
    case 21:
      return { ...style, isUnderlined: true }
    case 22:
      return { ...style, isBold: false, isDim: false }
    case 23:
      return { ...style, isItalic: false }
    case 24:
      return { ...style, isUnderlined: false }
    case 27:
      return { ...style, isInverse: false }
    case 29:
      return { ...style, isStruck: false }
    case 39:
      return { ...style, foreground: null }
    case 49:
      return { ...style, background: null }
  }
  if (code >= 30 && code <= 37) return { ...style, foreground: code - 30 }
  if (code >= 90 && code <= 97) return { ...style, foreground: code - 90 + 8 }
  if (code >= 40 && code <= 47) return { ...style, background: code - 40 }
  if (code >= 100 && code <= 107) return { ...style, background: code - 100 + 8 }
  return style
}

function extended(given: number[], isColon: boolean): { color?: Color; used: number } {
  if (given[0] === 5) return isByte(given[1]) ? { color: paletteColor(given[1]), used: 2 } : { used: 2 }
  if (given[0] !== 2) return { used: given.length === 0 ? 0 : 1 }
  const rgb = isColon && given.length > 4 ? given.slice(2, 5) : given.slice(1, 4)
  return rgb.length === 3 && rgb.every(isByte) ? { color: hex(rgb), used: 4 } : { used: 4 }
}

const isByte = (value: number | undefined): value is number =>
  value !== undefined && Number.isInteger(value) && value >= 0 && value <= 255

const hex = (rgb: number[]): string => `#${rgb.map(value => value.toString(16).padStart(2, '0')).join('')}`

/**
 * The first 16 colours come from the theme; then follow a colour cube with six steps per channel, and 24 greys (xterm's
 * 256 colours).
 */
function paletteColor(index: number): Color {
  if (index < 16) return index
  if (index >= 232) return hex([8, 8, 8].map(value => value + (index - 232) * 10))
  const step = (value: number): number => (value === 0 ? 0 : 55 + value * 40)
  const cube = index - 16
  return hex([step(Math.floor(cube / 36)), step(Math.floor(cube / 6) % 6), step(cube % 6)])
}

export interface JsonColumns {
  /** The time as written; seconds or milliseconds since 1970 become ISO text. */
  time: string
  /** The level as a word: `INFO`. */
  level: string
  message: string
  /** All other fields. */
  rest: ReadonlyArray<readonly [name: string, value: unknown]>
  whole: object
}

const timeNames = ['time', 'timestamp', '@timestamp', 'ts', 't', 'date']
const levelNames = ['level', 'severity', 'lvl', 'log.level', 'levelname']
const messageNames = ['msg', 'message', 'text', 'event']
/** The numeric levels of pino and bunyan. */
const levels: Readonly<Record<number, string>> = {
  10: 'TRACE',
  20: 'DEBUG',
  30: 'INFO',
  40: 'WARN',
  50: 'ERROR',
  60: 'FATAL'
}
const levelCells = 5
const timeCells = 24

/** Returns the columns of a line, or null if it is not a JSON object. */
export function jsonColumns(text: string): JsonColumns | null {
  if (!/^\s*\{/.test(text)) return null
  let whole: unknown
  try {
    whole = JSON.parse(text)
  } catch {
    return null
  }
  if (typeof whole !== 'object' || whole === null) return null
  const fields = new Map(Object.entries(whole))
  const take = (names: readonly string[]): unknown => {
    const name = names.find(name => isScalar(fields.get(name)))
    const value = name === undefined ? undefined : fields.get(name)
    if (name !== undefined) fields.delete(name)
    return value
  }
  const time = take(timeNames)
  const level = take(levelNames)
  const message = take(messageNames)
  return {
    time: timeText(time),
    level: (typeof level === 'number' ? (levels[level] ?? String(level)) : textOf(level)).toUpperCase(),
    message: textOf(message),
    rest: [...fields],
    whole
  }
}

const isScalar = (value: unknown): boolean => typeof value === 'string' || typeof value === 'number'
const textOf = (value: unknown): string => (value === undefined ? '' : String(value))

function timeText(value: unknown): string {
  if (typeof value !== 'number') return textOf(value)
  const ms = value < 1e11 ? value * 1000 : value
  return Math.abs(ms) < 8.64e15 ? new Date(ms).toISOString() : String(value)
}

const dim: TextStyle = { ...plainStyle, isDim: true }
const bold: TextStyle = { ...plainStyle, isBold: true }

/** Returns the style of a level's word. */
export function levelStyle(level: string): TextStyle {
  if (/^(ERR|FATAL|CRIT|ALERT|EMERG|PANIC)/.test(level)) return { ...bold, foreground: 1 }
  if (level.startsWith('WARN')) return { ...bold, foreground: 3 }
  if (/^(DEBUG|TRACE|VERBOSE|SILLY)/.test(level)) return { ...plainStyle, foreground: 8 }
  return { ...plainStyle, foreground: 4 }
}

/**
 * Returns the columns one after the other, each as wide as its kind needs, without control characters. `isFolded`: only
 * the names of the other fields are shown.
 */
export function jsonSpans(columns: JsonColumns | null, { isFolded = false } = {}): Span[] | null {
  if (columns === null) return null
  const { time, level, message, rest } = columns
  const spans: Span[] = []
  const put = (text: string, style: TextStyle): void => {
    if (text !== '') spans.push({ text: stripAnsi(text.replace(/[\r\n\t]+/g, ' ')), style })
  }
  if (time !== '') put(`${time.padEnd(timeCells)}  `, dim)
  if (level !== '') put(`${level.padEnd(levelCells)}  `, levelStyle(level))
  put(message, plainStyle)
  if (isFolded) {
    put(rest.length === 0 ? '' : `  {${rest.map(([name]) => name).join(', ')}}`, dim)
    return spans
  }
  for (const [name, value] of rest) {
    put(`  ${name}=`, dim)
    put(valueText(value), dim)
  }
  return spans
}

function valueText(value: unknown): string {
  if (typeof value === 'string') return /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value)
  return JSON.stringify(value) ?? ''
}

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

/** The name of each kind of file. */
export const kindWords: Readonly<Record<LogKind, { words: string }>> = {
  plain: { words: 'Plain text' },
  json: { words: 'JSON lines' },
  ansi: { words: 'Terminal colours' },
  pm2: { words: 'PM2 application' },
  nginx: { words: 'nginx' }
}

/** The kinds in the order of the choice. */
export const kinds = Object.keys(kindWords) as readonly LogKind[]
