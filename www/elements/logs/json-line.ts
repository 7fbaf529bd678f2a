import { plainStyle, stripAnsi, type Span, type TextStyle } from './ansi.js'

/* Splits a line that is a JSON object into columns: pino, bunyan, winston, zap, slog, Logback and similar. Pure. */

/** The columns of a JSON line. */
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
    const name = names.find(name => isPlain(fields.get(name)))
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

const isPlain = (value: unknown): boolean => typeof value === 'string' || typeof value === 'number'
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
