import { usage } from './args.js'

const units: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

/**
 * The instant that `--since` names: `90s`, `10m`, `2h`, `1d`, `1w` before now; a time of today, `12:04`; a date, with a
 * time and a zone or without. Without a zone it is one of this computer's. Refuses anything else.
 */
export function instantOf(text: string, nowMs: number): number {
  const ago = /^(\d{1,7}(?:\.\d{1,3})?)([smhdw])$/.exec(text)
  if (ago !== null) return nowMs - Number(ago[1]) * (units[ago[2] as string] as number)
  const ms = parse(text, nowMs)
  if (!Number.isNaN(ms)) return ms
  throw usage('--since', `--since is "${text}": a duration like 10m or 2h is needed, or a time like 12:04 or 2026-11-21T12:04`)
}

function parse(text: string, nowMs: number): number {
  const now = new Date(nowMs)
  const today = `${now.getFullYear()}-${String(now.getMonth() + 1).padStart(2, '0')}-${String(now.getDate()).padStart(2, '0')}`
  if (/^\d\d:\d\d(:\d\d)?$/.test(text)) return Date.parse(`${today}T${text}`)
  // A date alone is midnight here, as a time without a zone is; Date.parse takes it for one of UTC.
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return Date.parse(`${text}T00:00`)
  return /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text) ? Date.parse(text.replace(' ', 'T')) : Number.NaN
}
