import { usage } from '../command.js'
import { durationOf } from '../terminal/words.js'

/**
 * Parses `--since` to milliseconds since the epoch. Accepts a duration before now (`90s`, `10m`, `2h`, `1d`, `1w`), a
 * time of today (`12:04`), and a date with or without time and zone. The default zone is that of this machine. Refuses
 * anything else with the kind `usage`.
 */
export function instantOf(text: string, nowMs: number): number {
  const ago = durationOf(text)
  if (ago !== null) return nowMs - ago
  const ms = parse(text, nowMs)
  if (!Number.isNaN(ms)) return ms
  throw usage(
    '--since',
    `--since cannot be "${text}": use a duration like 10m or 2h, or a time like 12:04 or 2026-11-21T12:04`
  )
}

function parse(text: string, nowMs: number): number {
  const now = new Date(nowMs)
  const today = `${now.getFullYear()}-${String(now.getMonth() + 1).padStart(2, '0')}-${String(now.getDate()).padStart(2, '0')}`
  if (/^\d\d:\d\d(:\d\d)?$/.test(text)) return Date.parse(`${today}T${text}`)
  // A date alone means local midnight, like a time without a zone; Date.parse would take it as UTC.
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return Date.parse(`${text}T00:00`)
  return /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text) ? Date.parse(text.replace(' ', 'T')) : Number.NaN
}
