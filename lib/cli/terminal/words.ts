/** Formats a duration: 84000 as `1m 24s`. Below ten seconds it has one decimal. */
export function humanDuration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 10) return `${seconds.toFixed(1)}s`
  if (seconds < 60) return `${Math.round(seconds)}s`
  const whole = Math.round(seconds)
  const minutes = Math.floor(whole / 60)
  return minutes < 60 ? `${minutes}m ${whole % 60}s` : `${Math.floor(minutes / 60)}h ${minutes % 60}m`
}

const unitsMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/** Parses a duration such as `90s`, `10m`, `2h`, `1d` or `1w` to milliseconds. Returns null for any other text. */
export function durationOf(text: string): number | null {
  const [, number, unit] = /^(\d{1,7}(?:\.\d{1,3})?)([smhdw])$/.exec(text) ?? []
  return unit === undefined ? null : Number(number) * (unitsMs[unit] as number)
}

const steps: [limitSeconds: number, unitSeconds: number, letter: string][] = [
  [60, 1, 's'],
  [60 * 60, 60, 'm'],
  [24 * 60 * 60, 60 * 60, 'h'],
  [30 * 24 * 60 * 60, 24 * 60 * 60, 'd']
]

/** Formats an instant as `3m ago`, or as a date if it is over 30 days ago or in the future. Returns '' for null. */
export function relativeTime(at: string | null, nowMs: number): string {
  if (at === null) return ''
  const seconds = (nowMs - Date.parse(at)) / 1000
  if (!(seconds > -60)) return at.slice(0, 10)
  if (seconds < 1) return 'now'
  for (const [limit, unit, letter] of steps) if (seconds < limit) return `${Math.floor(seconds / unit)}${letter} ago`
  return at.slice(0, 10)
}

/**
 * Splits a list at its commas, except for commas within braces, as in the glob `*.{map,txt}`, and after a backslash.
 * Trims the items and drops empty ones.
 */
export function splitList(text: string): string[] {
  const items = ['']
  let depth = 0
  for (const [piece] of text.matchAll(/\\[^]|[^]/g)) {
    if (piece === '{') depth++
    else if (piece === '}') depth = Math.max(0, depth - 1)
    if (piece === ',' && depth === 0) items.push('')
    else items[items.length - 1] += piece
  }
  return items.map(item => item.trim()).filter(Boolean)
}

/** Formats an instant to the minute: `2026-11-29 12:00 UTC`. */
export function minuteOf(instant: string): string {
  return `${instant.slice(0, 16).replace('T', ' ')} UTC`
}

/** Formats an instant in the time of this machine: `18:34`, on another day `2026-11-29 18:34`. */
export function localTime(instant: string, nowMs: number): string {
  const two = (number: number): string => String(number).padStart(2, '0')
  const dayOf = (at: Date): string => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  const at = new Date(instant)
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`
  return dayOf(at) === dayOf(new Date(nowMs)) ? time : `${dayOf(at)} ${time}`
}

/** Returns the name of a new file with the time: `svc-export-2026-11-21T12-04-05.zip`. */
export function stampedName(name: string, ending: string): string {
  return `${name}-${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}.${ending}`
}

/** Breaks a text between words into lines of at most this many characters. A longer word has its own line. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > columns) {
      lines.push(line)
      line = ''
    }
    line += line === '' ? word : ` ${word}`
  }
  return [...lines, line]
}
