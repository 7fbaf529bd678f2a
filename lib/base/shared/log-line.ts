/*
 * Reads the level of a log line from the line itself.
 *
 *   {"level":50}, {"level":"warn"}, {"severity":"ERROR"}    JSON: pino and bunyan use 10 to 60, winston uses words,
 *                                                           GELF and journald use the numbers of syslog
 *   {"type":"err"}, PM2 error:, 0|app  | …                  pm2: its JSON, its own log, its prefix before a line
 *   level=warn                                              logfmt
 *   <11>1 2026-…                                            syslog: the priority modulo 8 (RFC 5424 §6.2.1)
 *   2026/11/21 12:04:11 [error] 12#12: …                    the error logs of nginx, Apache and MySQL
 *   E1121 12:04:11.123456, [E 261121 12:04:11 …, E, [2026-… klog, Tornado and Jupyter, Ruby
 *   2026.11.21 12:04:11 [ 1 ] {} <Error> …                  ClickHouse
 *   12:04:11 INF …, [12:04:11 ERR] …, ERRO[0001] …          the short words of zerolog, Serilog and logrus
 *   fail: Shop.Payment[0], [… INFO/MainProcess] …           .NET and celery
 *   E/Tag(12): …, … E | etcd: …, 1:M … # …                  the letters and signs of Android, etcd and Redis
 *   12:04:11 WARN …, Error: …, npm ERR! …, Traceback …      plain text
 */

/** All levels, the most severe first. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const
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
  [
    'error',
    /^(?:err(?:or)?|erro|eror|fail|fatal|ftl|fata|crit(?:ical)?|crt|alert|emerg(?:ency)?|panic|pnc|pani|severe|failure|dpanic|c|e|f)$/i
  ],
  ['warn', /^(?:warn(?:ing)?|wrn|w)$/i],
  ['info', /^(?:inf|info(?:rmation(?:al)?)?|notice|note|log|system|http|i|n)$/i],
  ['debug', /^(?:debug\d?|dbg|dbug|debu|trace|trc|trce|trac|vrb|verbose|silly|fine(?:r|st)?|d|t|v)$/i]
]

/** Whether a level is `least` or more severe. */
export function reachesLevel(level: LogLevel, least: LogLevel): boolean {
  return logLevels.indexOf(level) <= logLevels.indexOf(least)
}

/** Returns the level of a line, or null if there is none. Ignores terminal colours. */
export function levelOfLine(text: string): LogLevel | null {
  return levelIn(visibleText(text))?.level ?? null
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
    levelAfterTime(head, start) ??
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

/** In lower case. Monolog has a word beside a number of its own, so its word comes first. */
const fieldNames = [
  'level_name',
  'level',
  'severity',
  'lvl',
  'log.level',
  'levelname',
  'loglevel',
  'log_level',
  '@level',
  '@l',
  'severity_text',
  'severitytext'
]

function levelOfFields(fields: Record<string, unknown>): LogLevel | null {
  const lower = new Map(Object.entries(fields).map(([name, value]) => [name.toLowerCase(), value]))
  for (const name of fieldNames) {
    const level = levelOfValue(lower.get(name))
    if (level !== null) return level
  }
  const { log, PRIORITY: priority, type, s: severity, c: component } = fields
  // MongoDB: "E", "W", "I", and "D1" to "D5".
  if (typeof severity === 'string' && typeof component === 'string') return levelNamed(severity.replace(/\d$/, ''))
  if (typeof log === 'object' && log !== null) return levelOfValue((log as Record<string, unknown>)['level'])
  if (priority !== undefined) return levelOfSeverity(Number(priority))
  if ('app_name' in fields && 'process_id' in fields) return type === 'err' ? 'error' : type === 'out' ? 'info' : null
  return null
}

function levelOfValue(value: unknown): LogLevel | null {
  if (typeof value === 'number') return levelOfNumber(value)
  if (typeof value === 'object' && value !== null) return levelOfValue(Object.entries(value).find(isName)?.[1])
  if (typeof value !== 'string') return null
  return /^\d+$/.test(value) ? levelOfNumber(Number(value)) : levelNamed(visibleText(value).trim())
}

const isName = ([name, value]: [string, unknown]): boolean => name === 'name' && typeof value === 'string'

/** Reads the level of a line that was cut off, or whose text is not valid JSON. */
function levelOfCutJson(text: string): LogLevel | null {
  const found =
    /"(?:level|severity|lvl|log\.level|levelname|level_name|log_?level|@l)"\s*:\s*(?:"(\w{1,15})"|(\d{1,3})\b)/i.exec(
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

/** `E1121 12:04:11` (klog), `[E 261121 12:04:11` (Tornado, Jupyter), `E, [2026-…` (Ruby). */
const letters = [
  /^([EWIFD])\d{4} \d\d:\d\d:\d\d/,
  /^\[([CDEIW]) (?:\d{6}|\d{4}-\d\d-\d\d) \d\d:/,
  /^([DIWEFA]), \[\d{4}-/
]

function levelInLetter(text: string, start: number): FoundLevel | null {
  const head = text.slice(start, start + 24)
  const letter = letters.map(form => form.exec(head)).find(each => each !== null)
  if (letter === undefined || letter === null) return null
  return found(levelNamed(letter[1] as string), start + letter[0].indexOf(letter[1] as string), 1)
}

/** Letters of Android's log: `E/Tag(12):`, and after a time `E Tag:`. Also of etcd (`E | `) and MongoDB (`I NETWORK  [`). */
const letterOfTag = /^[DEFIVW](?=\/[\w.]+ *\( *\d+\):)/
const letterAfterTime = /^[CDEFINTVW](?= [\w.]+ *: | \| | [A-Z]{3,} +\[)/
/** What zerolog, Serilog and logrus write; and any word before the name of a process (celery). */
const shortWord = /^(?:EROR|ERRO?|FTL|FATA|PNC|PANI|CRT|WRN|INF|DBG|DEBU|VRB|TRC|TRAC)(?=[\s\]:|[]|$)/
const wordOfProcess = /^(?:CRITICAL|ERROR|WARNING|INFO|DEBUG)(?=\/[A-Z])/
/** .NET writes its category after the word. */
const dotnetWord = /^(?:fail|crit|dbug|trce)(?=: [A-Z])/
/** `(node:12) [DEP0005] DeprecationWarning: …`, `PHP Fatal error: …`. */
const nodeWarning = /^\(node:\d+\) (?:\[\w+\] )?\w*(Warning)(?=: )/
const phpWord = /^PHP (?:(?:Fatal|Parse|Recoverable fatal|Core|Compile) )?(error|Warning|Notice|Deprecated)(?=: )/i
const redisSign = /^\d+:[CMSX] \d\d \w{3} (?:\d{4} )?[\d:.]+ ([#*.-]) /
/** Signs that programs write instead of a word. */
const signs: ReadonlyArray<readonly [RegExp, LogLevel]> = [
  [/^(?:\u2a2f|\u2716|\u274c)/, 'error'],
  [/^\u26a0/, 'warn']
]
/** ClickHouse: `<Error>` after a time. */
const angled = /^\d{4}[.-]\d\d[.-]\d\d .{0,80}?<(Fatal|Critical|Error|Warning|Notice|Information|Debug|Trace)> /
/** Of Python: `DeprecationWarning: …`, also after the place in the source. */
const pythonWarning = /^(?:[\w./-]+\.py:\d+: )?\w*(Warning)(?=: )/
const redisLevels: Record<string, LogLevel> = { '#': 'warn', '*': 'info', '-': 'debug', '.': 'debug' }

/** Finds what only says a level at the start of a line, or after its time. */
function levelAfterTime(text: string, start: number): FoundLevel | null {
  const whole = text.slice(start)
  const sign = redisSign.exec(whole)
  if (sign !== null) return found(redisLevels[sign[1] as string] as LogLevel, start + sign[0].length - 2, 1)
  const signed = signs.find(([form]) => form.test(whole))
  if (signed !== undefined) return found(signed[1], start, 1)
  const inAngles = angled.exec(whole)
  if (inAngles !== null) {
    const word = inAngles[1] as string
    return found(levelNamed(word), start + inAngles[0].length - word.length - 2, word.length)
  }
  const warning = nodeWarning.exec(whole) ?? pythonWarning.exec(whole)
  if (warning !== null) return found('warn', start + warning[0].length - 'Warning'.length, 'Warning'.length)
  const length = lead.exec(whole)?.[0].length ?? 0
  const rest = whole.slice(length)
  const php = phpWord.exec(rest)
  if (php !== null) {
    const word = php[1] as string
    const level = /deprecated/i.test(word) ? 'warn' : levelNamed(word)
    return found(level, start + length + php[0].length - word.length, word.length)
  }
  const atStart = [shortWord, dotnetWord, letterOfTag]
  const forms = length === 0 ? atStart : [...atStart, wordOfProcess, letterAfterTime]
  const word = forms.map(form => form.exec(rest)?.[0]).find(word => word !== undefined)
  return word === undefined ? null : found(levelNamed(word), start + length, word.length)
}

const capitals =
  /(?<![\w$/-])(?:EMERG(?:ENCY)?|ALERT|CRIT(?:ICAL)?|FATAL|PANIC|SEVERE|ERR(?:OR)?|WARN(?:ING)?|NOTICE|INFO|LOG(?=:| \[\w+\])|FINE(?:R|ST)?(?=: | \[)|DEBUG\d?|TRACE|VERBOSE)(?![\w./-])/
/** Date, time, zone and brackets before the first word. */
const lead =
  /^(?:\d[\d:.,/+TZ-]*|[\s[\](){}:|#>-]|[+-]\d\d|UTC|GMT|PM2 |(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ ,/-])*/
const firstWord =
  /^(errors?|log|err|fatal|critical|warn(?:ing)?|info|notice|debug|trace|verbose)(?=\s*[:!\])|>-]|\s{2,}|\s+\[)/i
const exception =
  /^(?:Uncaught |Unhandled |[Ff]atal(?: error)?: |Segmentation fault|=CRASH REPORT=|\*\* \([A-Z][\w.]*\) |Exception in thread |Caused by: |Traceback \(most recent call last\)|panic: |thread '[^']*' panicked|npm ERR!|(?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception)(?: \[\w+\])?(?::|$))/

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

/*
 * Reads the time at which a log line was written from the line itself.
 *
 *   2026-11-21T12:04:11.123Z, 2026-11-21 12:04:11,123 +0200   ISO 8601 and common variations, anywhere near the start
 *   [21/Nov/2026:12:04:11 +0000]                              access logs (NCSA)
 *   2026/11/21 12:04:11                                       nginx's error log, Go's log package
 *   Nov 21 12:04:11                                           syslog (RFC 3164), without a year
 *   {"time": …}, {"ts": 1795262651.2}                         a field of a JSON object: text, seconds or milliseconds
 *
 * A time without a zone is in the given zone, or else in the reader's own. A time without a year is the last such time
 * before `nowMs`.
 */

/** Number of characters at the start of a line that are searched for a time. */
const timeHeadLength = 300

const iso = /(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?\s?(Z|[+-]\d\d:?\d\d)?/
const access =
  /(\d\d)\/(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\/(\d{4}):(\d\d):(\d\d):(\d\d)(?: ([+-]\d{4}))?/
const slashes = /(\d{4})\/(\d\d)\/(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?/
const syslog = /^(?:<\d+>)?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ([ \d]\d) (\d\d):(\d\d):(\d\d)/
const epochField = /"(?:time|timestamp|ts|t|@timestamp)"\s*:\s*(\d{9,13}(?:\.\d+)?)/
const dayMs = 86_400_000

/**
 * Returns the time of a line in milliseconds since 1970, or null if it contains none. `zoneMinutes` is the zone of
 * times without one, in minutes east of Greenwich.
 */
export function timeOfLine(text: string, nowMs: number, zoneMinutes?: number): number | null {
  const head = visibleText(text.slice(0, timeHeadLength))
  // Every time contains a pair of digits and a colon, or is a JSON field. Most lines without a time end here.
  if (!/\d\d:\d\d|"t/.test(head)) return null
  const instant = (clock: Clock): number | null => instantOf(clock, zoneMinutes)
  return (
    isoTime(head, instant) ??
    accessTime(head, instant) ??
    slashTime(head, instant) ??
    syslogTime(head, nowMs, instant) ??
    epochTime(head)
  )
}

interface Clock {
  year: number
  month: number
  day: number
  hour: number
  minute: number
  second: number
  /** Digits after the decimal point. */
  fraction?: string | undefined
  zone?: string | undefined
}

type Instant = (clock: Clock) => number | null

function isoTime(text: string, instant: Instant): number | null {
  const found = iso.exec(text)
  return found === null ? null : instant(clockOf(found.slice(1)))
}

function accessTime(text: string, instant: Instant): number | null {
  const found = access.exec(text)
  if (found === null) return null
  const [, day, month, year, hour, minute, second, zone] = found
  return instant({ ...clockOf([year, undefined, day, hour, minute, second]), month: monthOf(month as string), zone })
}

function slashTime(text: string, instant: Instant): number | null {
  const found = slashes.exec(text)
  return found === null ? null : instant(clockOf(found.slice(1)))
}

/** Reads year, month, day, hour, minute, second, fraction and zone, in this order. */
function clockOf([year, month, day, hour, minute, second = '0', fraction, zone]: ReadonlyArray<
  string | undefined
>): Clock {
  return {
    year: Number(year),
    month: Number(month),
    day: Number(day),
    hour: Number(hour),
    minute: Number(minute),
    second: Number(second),
    fraction,
    zone
  }
}

function syslogTime(text: string, nowMs: number, instant: Instant): number | null {
  const found = syslog.exec(text)
  if (found === null) return null
  const [, month, day, hour, minute, second] = found
  const clock = {
    month: monthOf(month as string),
    day: Number(day),
    hour: Number(hour),
    minute: Number(minute),
    second: Number(second)
  }
  const year = new Date(nowMs).getFullYear()
  const thisYear = instant({ ...clock, year })
  // A line slightly in the future comes from a clock that is a little ahead, not from last year.
  return thisYear === null || thisYear <= nowMs + dayMs ? thisYear : instant({ ...clock, year: year - 1 })
}

function epochTime(text: string): number | null {
  const found = epochField.exec(text)
  if (found === null) return null
  const value = Number(found[1])
  return value < 1e11 ? value * 1000 : value
}

const monthOf = (name: string): number => 'JanFebMarAprMayJunJulAugSepOctNovDec'.indexOf(name) / 3 + 1

function instantOf(
  { year, month, day, hour, minute, second, fraction, zone }: Clock,
  zoneMinutes?: number
): number | null {
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 24 || minute > 59 || second > 60) return null
  const ms = fraction === undefined ? 0 : Math.floor(Number(`0.${fraction}`) * 1000)
  if (zone === undefined && zoneMinutes === undefined)
    return new Date(year, month - 1, day, hour, minute, second, ms).getTime()
  const offset = zone === undefined ? (zoneMinutes as number) : zone === 'Z' ? 0 : minutesOf(zone)
  return Date.UTC(year, month - 1, day, hour, minute, second, ms) - offset * 60_000
}

function minutesOf(zone: string): number {
  const digits = zone.replace(':', '')
  const minutes = Number(digits.slice(1, 3)) * 60 + Number(digits.slice(3, 5))
  return digits.startsWith('-') ? -minutes : minutes
}

/*
 * What a terminal shows of a text: without control sequences (ECMA-48 §5.4, §5.6). Logs are searched, and their levels
 * and times are read, as the eye sees them.
 */

/** CSI, OSC with its text, DCS and similar, and escapes of two characters; each also cut off by the end of a line. */
const sequence =
  /\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)|\][^\x07\x1b\n]*(?:\x07|\x1b\\|$)|[PX^_][^\x1b\n]*(?:\x1b\\|$)|[ -/]*[0-OQ-WYZ\\`-~])/gm

/** Returns a text without control sequences. */
export function visibleText(text: string): string {
  return text.includes('\x1b') ? text.replace(sequence, '') : text
}

const sequences = new RegExp(`(?:${sequence.source})+`, 'my')

/** Returns where the control sequences at a position end: the position itself if there are none. */
export function endOfSequences(text: string, at: number): number {
  sequences.lastIndex = at
  return sequences.test(text) ? sequences.lastIndex : at
}
