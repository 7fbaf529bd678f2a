/*
 * Reads the level of a log line from the line itself.
 *
 *   {"level":50}, {"level":"warn"}, {"severity":"ERROR"}    JSON: pino and bunyan use 10 to 60, winston uses words,
 *                                                           GELF and journald use the numbers of syslog
 *   {"type":"err"}, PM2 error:, 0|app  | …                  pm2: its JSON, its own log, its prefix before a line
 *   level=warn                                              logfmt
 *   <11>1 2026-…                                            syslog: the priority modulo 8 (RFC 5424 §6.2.1)
 *   2026/11/21 12:04:11 [error] 12#12: …                    the error logs of nginx, Apache and MySQL
 *   E1121 12:04:11.123456                                   klog
 *   12:04:11 WARN …, Error: …, npm ERR! …, Traceback …      plain text
 */

/** All levels, the most severe first. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const
/** The level of a log line. */
export type LogLevel = (typeof logLevels)[number]

/** A level, and the characters that express it. */
export interface FoundLevel {
  level: LogLevel
  /** Range of the characters that express the level. Empty if no word does. */
  from: number
  to: number
}

/** Number of characters at the start of a line that are searched for a level, unless the line is JSON. */
const headLength = 240
const maxJsonLength = 64 * 1024

const names: ReadonlyArray<readonly [LogLevel, RegExp]> = [
  ['error', /^(?:err(?:or)?|fatal|crit(?:ical)?|alert|emerg(?:ency)?|panic|severe|failure|dpanic|e|f)$/i],
  ['warn', /^(?:warn(?:ing)?|w)$/i],
  ['info', /^(?:info(?:rmation(?:al)?)?|notice|note|log|system|http|i)$/i],
  ['debug', /^(?:debug\d?|trace|verbose|silly|fine(?:r|st)?|d|t|v)$/i]
]

/** Whether a level is `least` or more severe. */
export function reachesLevel(level: LogLevel, least: LogLevel): boolean {
  return logLevels.indexOf(level) <= logLevels.indexOf(least)
}

/** Returns the level of a line, or null if there is none. Ignores terminal colours. */
export function levelOfLine(text: string): LogLevel | null {
  return levelIn(text.includes('\x1b') ? text.replace(/\x1b\[[\d;:]*m/g, '') : text)?.level ?? null
}

/** Returns the level of a text without control sequences, with the range of its word. */
export function levelIn(text: string): FoundLevel | null {
  const start = prefixOf(text)
  if (text[start] === '{') return levelOfJson(text, start)
  const head = text.slice(0, start + headLength)
  return (
    levelInPriority(head, start) ??
    levelInField(head, start) ??
    levelInBrackets(head, start) ??
    levelInLetter(head, start) ??
    levelInWords(head, start)
  )
}

/** Returns the length of the prefix that pm2 writes before each line, with spaces. */
function prefixOf(text: string): number {
  return /^(?:\d+\|[^|]{1,60}\| |PM2 +\| )?\s*/.exec(text)?.[0].length ?? 0
}

function levelOfJson(text: string, start: number): FoundLevel | null {
  const level =
    text.length > maxJsonLength
      ? levelOfCutJson(text)
      : (levelOfFields(parse(text.slice(start))) ?? levelOfCutJson(text))
  return level === null ? null : { level, from: start, to: start }
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

const fieldNames = ['level', 'severity', 'lvl', 'log.level', 'levelname', 'loglevel', '@level']

function levelOfFields(fields: Record<string, unknown>): LogLevel | null {
  for (const name of fieldNames) {
    const level = levelOfValue(fields[name])
    if (level !== null) return level
  }
  const { log, PRIORITY: priority, type } = fields
  if (typeof log === 'object' && log !== null) return levelOfValue((log as Record<string, unknown>)['level'])
  if (priority !== undefined) return levelOfSeverity(Number(priority))
  if ('app_name' in fields && 'process_id' in fields) return type === 'err' ? 'error' : type === 'out' ? 'info' : null
  return null
}

function levelOfValue(value: unknown): LogLevel | null {
  if (typeof value === 'number') return levelOfNumber(value)
  if (typeof value !== 'string') return null
  return /^\d+$/.test(value) ? levelOfNumber(Number(value)) : levelNamed(value.replace(/\x1b\[[\d;:]*m/g, '').trim())
}

/** Reads the level of a line that was cut off, or whose text is not valid JSON. */
function levelOfCutJson(text: string): LogLevel | null {
  const found = /"(?:level|severity|lvl|log\.level|levelname)"\s*:\s*(?:"(\w{1,15})"|(\d{1,3})\b)/.exec(
    text.slice(0, maxJsonLength)
  )
  if (found === null) return null
  return found[1] === undefined ? levelOfNumber(Number(found[2])) : levelOfValue(found[1])
}

function levelOfNumber(value: number): LogLevel | null {
  if (value < 10) return levelOfSeverity(value)
  if (value >= 50) return 'error'
  if (value >= 40) return 'warn'
  return value >= 30 ? 'info' : 'debug'
}

/** Maps the severities of syslog (RFC 5424 §6.2.1). */
function levelOfSeverity(value: number): LogLevel | null {
  if (!Number.isInteger(value) || value < 0 || value > 7) return null
  if (value <= 3) return 'error'
  if (value === 4) return 'warn'
  return value === 7 ? 'debug' : 'info'
}

function levelNamed(word: string): LogLevel | null {
  return names.find(([, pattern]) => pattern.test(word))?.[0] ?? null
}

function found(level: LogLevel | null, from: number, length: number): FoundLevel | null {
  return level === null ? null : { level, from, to: from + length }
}

function levelInPriority(text: string, start: number): FoundLevel | null {
  const priority = /^<(\d{1,3})>/.exec(text.slice(start, start + 5))
  if (priority === null || Number(priority[1]) > 191) return null
  return found(levelOfSeverity(Number(priority[1]) % 8), start, 0)
}

function levelInField(text: string, start: number): FoundLevel | null {
  const field = /(?:^|[\s,;])(?:level|lvl|severity|log\.level)=(["']?)(\w{1,15})\1(?=$|[\s,;])/i.exec(text.slice(start))
  if (field === null) return null
  const word = field[2] as string
  const level = /^\d+$/.test(word) ? levelOfNumber(Number(word)) : levelNamed(word)
  return found(level, start + field.index + field[0].lastIndexOf(word), word.length)
}

/**
 * Finds `[error]`, `[core:error]`, `[ WARN ]`, `[Warning]`. Ignores single letters, which are in brackets for many
 * reasons.
 */
function levelInBrackets(text: string, start: number): FoundLevel | null {
  for (const each of text.slice(start, start + 120).matchAll(/\[\s*(?:\w{1,30}:)?([A-Za-z]{3,13}\d?)\s*\]/g)) {
    const word = each[1] as string
    const level = levelNamed(word)
    if (level !== null) return found(level, start + each.index + each[0].lastIndexOf(word), word.length)
  }
  return null
}

function levelInLetter(text: string, start: number): FoundLevel | null {
  const letter = /^([EWIFD])\d{4} \d\d:\d\d:\d\d/.exec(text.slice(start, start + 20))
  return letter === null ? null : found(levelNamed(letter[1] as string), start, 1)
}

const capitals =
  /(?<![\w$/-])(?:EMERG(?:ENCY)?|ALERT|CRIT(?:ICAL)?|FATAL|PANIC|SEVERE|ERR(?:OR)?|WARN(?:ING)?|NOTICE|INFO|LOG(?=:)|DEBUG\d?|TRACE|VERBOSE)(?![\w./-])/
/** Date, time, zone and brackets before the first word. */
const lead = /^(?:\d[\d:.,/+TZ-]*|[\s[\](){}:|#>-]|UTC|GMT|PM2 )*/
const firstWord =
  /^(errors?|log|err|fatal|critical|warn(?:ing)?|info|notice|debug|trace|verbose)(?=\s*[:!\])|>-]|\s{2,}|\s+\[)/i
const exception =
  /^(?:Uncaught |Unhandled |fatal: |Exception in thread |Caused by: |Traceback \(most recent call last\)|panic: |thread '[^']*' panicked|npm ERR!|(?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception)(?: \[\w+\])?(?::|$))/

function levelInWords(text: string, start: number): FoundLevel | null {
  const upper = capitals.exec(text.slice(start, start + 160))
  if (upper !== null) return found(levelNamed(upper[0].replace(/\d$/, '')), start + upper.index, upper[0].length)
  const at = start + (lead.exec(text.slice(start))?.[0].length ?? 0)
  const rest = text.slice(at)
  const word = firstWord.exec(rest)?.[1]
  if (word !== undefined) return found(levelNamed(word.replace(/s$/i, '')), at, word.length)
  const thrown = exception.exec(rest)
  return thrown === null ? null : found('error', at, thrown[0].replace(/:\s*$|\s$/, '').length)
}
