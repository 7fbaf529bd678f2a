import { timeOfLine } from '../model/line-time.js'
import { levelIn, levelOfLine, reachesLevel, type LogLevel } from '../model/log-level.js'
import type { Paint } from './colors.js'

/** A line as it is printed. */
export interface TailLine {
  /** What its log source is called. */
  name: string
  sourceId: string
  text: string
  /** Its own time, or that of the line before it; null: none is known. */
  timeMs: number | null
  /** The level that it says; null: none. */
  level: LogLevel | null
}

export interface LineFilter {
  /** Null: any text. */
  pattern: RegExp | null
  /** This level, or worse; undefined: any. */
  least: LogLevel | undefined
}

/** What tells the lines of one log, in their order, and which of them are wanted. */
export function createLineReader({ name, sourceId }: Pick<TailLine, 'name' | 'sourceId'>, { pattern, least }: LineFilter) {
  let timeMs: number | null = null
  // A line of a stack trace has the level of the line that it belongs to.
  let inherited: LogLevel | null = null
  return (text: string): TailLine | null => {
    timeMs = timeOfLine(text, Date.now()) ?? timeMs
    const level = levelOfLine(text)
    inherited = level ?? inherited
    const isWanted = (pattern === null || pattern.test(text)) && (least === undefined || (inherited !== null && reachesLevel(inherited, least)))
    return isWanted ? { name, sourceId, text, timeMs, level } : null
  }
}

/**
 * Lines of several logs in the order of their times. Lines of one log keep their order, whatever their times; those
 * before its first time have that one.
 */
export function mergeLines(logs: ReadonlyArray<readonly TailLine[]>): TailLine[] {
  const timed = logs.flatMap(lines => {
    let last = lines.find(({ timeMs }) => timeMs !== null)?.timeMs ?? Infinity
    return lines.map(line => {
      last = Math.max(last, line.timeMs ?? -Infinity)
      return { line, at: last }
    })
  })
  return timed.sort((a, b) => (a.at === b.at ? 0 : a.at - b.at)).map(({ line }) => line)
}

/** A line for people: its source where there are several, and the word of its level in colour. */
export function createLinePrinter(names: readonly string[], paint: Paint): (line: TailLine) => string {
  const colors = [paint.blue, paint.green, paint.yellow, paint.dim]
  const width = Math.min(24, Math.max(...names.map(name => name.length)))
  return ({ name, text }) => {
    if (names.length < 2) return `${withLevel(text, paint)}\n`
    const color = colors[Math.max(0, names.indexOf(name)) % colors.length] ?? paint.dim
    return `${color(`${name.padEnd(width)} |`)} ${withLevel(text, paint)}\n`
  }
}

function withLevel(text: string, paint: Paint): string {
  const found = text.includes('\x1b') ? null : levelIn(text)
  if (found === null || found.from === found.to) return text
  const color = { error: paint.red, warn: paint.yellow, info: paint.blue, debug: paint.dim }[found.level]
  return `${text.slice(0, found.from)}${color(text.slice(found.from, found.to))}${text.slice(found.to)}`
}

/** A line for programs: one object of JSON. */
export function jsonLine({ name, sourceId, text, timeMs, level }: TailLine): string {
  const time = timeMs === null ? null : new Date(timeMs).toISOString()
  return `${JSON.stringify({ source: name, sourceId, time, level, text })}\n`
}
