/*
 * When deployments may begin: weekly windows in a time zone, and freezes by date. A local hour that does not exist, because
 * the clock is set forward, closes at its end; one that exists twice is open twice.
 */
import type { Readers } from './readers.js'
import { checked, line, list, object, type Read } from '../base/fields.js'

/** A weekly window. */
export interface Window {
  /** Days: `mon-thu`, `sat,sun`. @maxLength 40 */
  days: string
  /** When it opens: `09:00`. */
  from: string
  /** When it closes: `16:00`. Before `from`: on the next day. `24:00` is the end of the day. */
  to: string
}

/** Days on which nothing is deployed. */
export interface Freeze {
  /** The first day: `2026-12-20`. */
  from: string
  /** The last day. */
  to: string
  /** Why. @maxLength 200 */
  reason: string
}

/** When deployments may begin. @schema Windows */
export interface Windows {
  /** Empty: at any time outside of the freezes. */
  allow: readonly Window[]
  freeze: readonly Freeze[]
  /** A time zone: `Europe/Berlin`. @maxLength 64 */
  tz: string
}

/** Who reads windows. */
export const windowsReaders: Readers<Windows> = {
  fields: {
    allow: { items: { fields: { days: 'everybody', from: 'everybody', to: 'everybody' } } },
    freeze: { items: { fields: { from: 'everybody', to: 'everybody', reason: 'everybody' } } },
    tz: 'everybody'
  }
}

const dayNames = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'] as const
const hourMs = 60 * 60_000
const dayMs = 24 * hourMs
/** Offsets of zones change at quarters of an hour. */
const quarterMs = 15 * 60_000
/** Days in which the next opening is looked for: a freeze may last a year. */
const searchedDays = 400

/** Returns the days that a text names, 0 for Sunday; null: it is no list of days. */
function daysOf(text: string): ReadonlySet<number> | null {
  const days = new Set<number>()
  for (const part of text.toLowerCase().split(',')) {
    const [first, last = first, more] = part.trim().split('-')
    const [from, to] = [first, last].map(name => dayNames.indexOf(name as 'sun'))
    if (from === undefined || to === undefined || from < 0 || to < 0 || more !== undefined) return null
    for (let day = from; ; day = (day + 1) % 7) {
      days.add(day)
      if (day === to) break
    }
  }
  return days
}

/** Returns the minutes since midnight of `09:30`. */
function minutesOf(time: string): number {
  return Number(time.slice(0, 2)) * 60 + Number(time.slice(3))
}

const timeText = checked(line({ min: 5, max: 5 }), text =>
  /^(([01]\d|2[0-3]):[0-5]\d|24:00)$/.test(text) ? null : 'it must be a time of day, such as 09:30'
)
const dateText = checked(line({ min: 10, max: 10 }), text => {
  const ms = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : NaN
  const isDate = !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text)
  return isDate ? null : 'it must be a date, such as 2026-12-20'
})
const zone = checked(line({ min: 1, max: 64 }), text => {
  try {
    new Intl.DateTimeFormat('en', { timeZone: text })
    return null
  } catch {
    return 'it must be a time zone, such as Europe/Berlin'
  }
})
const daysText = checked(line({ min: 3, max: 40 }), text =>
  daysOf(text) === null ? 'it must name days, such as mon-thu or sat,sun' : null
)
const oneWindow: Read<Window> = Object.assign(
  checked(object({ days: daysText, from: timeText, to: timeText }, { strict: true }), ({ from, to }) =>
    from === to ? 'it opens and closes at the same time' : from === '24:00' ? 'it cannot open at 24:00' : null
  ),
  { example: { days: 'mon-thu', from: '09:00', to: '16:00' } }
)
const oneFreeze: Read<Freeze> = Object.assign(
  checked(
    object({ from: dateText, to: dateText, reason: line({ min: 1, max: 200, trim: true }) }, { strict: true }),
    ({ from, to }) => (from <= to ? null : 'its last day is before its first')
  ),
  { example: { from: '2026-12-20', to: '2027-01-03', reason: 'Christmas' } }
)
const maxWindows = 50

/** Reads windows. */
export const readWindows: Read<Windows> = Object.assign(
  checked(
    object(
      {
        allow: list(oneWindow, { max: maxWindows }),
        freeze: list(oneFreeze, { max: maxWindows }),
        tz: zone
      },
      { strict: true }
    ),
    ({ allow, freeze }) => (allow.length + freeze.length === 0 ? 'it names no window and no freeze' : null)
  ),
  { example: { allow: [{ days: 'mon-thu', from: '09:00', to: '16:00' }], freeze: [], tz: 'Europe/Berlin' } }
)

/** The local time of a moment, as milliseconds since the epoch if it were UTC. */
function localMsOf(ms: number, format: Intl.DateTimeFormat): number {
  const parts = Object.fromEntries(format.formatToParts(ms).map(({ type, value }) => [type, Number(value)]))
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0 } = parts
  return Date.UTC(year, month - 1, day, hour, minute) + (ms % 60_000)
}

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const numeric = 'numeric'
  const fields = { year: numeric, month: numeric, day: numeric, hour: numeric, minute: numeric } as const
  return new Intl.DateTimeFormat('en-u-ca-iso8601', { timeZone, hourCycle: 'h23', ...fields })
}

/** Returns the moments at which a local time comes: two, if the clock is set back over it. */
function momentsOf(localMs: number, format: Intl.DateTimeFormat): number[] {
  const guesses = [localMs - dayMs, localMs + dayMs].map(near => localMs - (localMsOf(near, format) - near))
  const last = Math.max(...guesses)
  let first = Math.min(...guesses)
  // The local time does not exist: what follows is the end of the hour that was left out.
  while (first < last && localMsOf(first, format) < localMs) first = nextQuarter(first)
  // On the day of a change, the other guess is half an hour or an hour off for the times that come once.
  return localMsOf(last, format) === localMs ? [first, last] : [first]
}

/** Returns the moments of a local day at which its clock is set: it may be set into the middle of a window. */
function changesOn(midnight: number, format: Intl.DateTimeFormat): number[] {
  const [from, to] = [midnight, midnight + dayMs].map(localMs => momentsOf(localMs, format)[0] as number)
  if (from === undefined || to === undefined || to - from === dayMs) return []
  const moments: number[] = []
  for (let ms = nextQuarter(from - 1); ms < to; ms = nextQuarter(ms)) {
    if (localMsOf(ms, format) - localMsOf(ms - quarterMs, format) !== quarterMs) moments.push(ms)
  }
  return moments
}

function nextQuarter(ms: number): number {
  return (Math.floor(ms / quarterMs) + 1) * quarterMs
}

/** Whether deployments may begin, and if not, why, and when they may again; null: not within a year. */
export type Opening = { isOpen: true } | { isOpen: false; reason: string | null; opensAtMs: number | null }

/** Returns whether deployments may begin at a moment. */
export function openingAt(windows: Windows, ms: number): Opening {
  const format = formatOf(windows.tz)
  const closed = closedAt(windows, localMsOf(ms, format))
  if (closed === null) return { isOpen: true }
  return { isOpen: false, reason: closed.reason, opensAtMs: nextOpening(windows, ms, format) }
}

/** Returns why it is closed at a local time; null: it is open. */
function closedAt({ allow, freeze }: Windows, localMs: number): { reason: string | null } | null {
  const date = new Date(localMs).toISOString().slice(0, 10)
  const frozen = freeze.find(({ from, to }) => from <= date && date <= to)
  if (frozen !== undefined) return { reason: frozen.reason }
  return allow.length === 0 || allow.some(window => isIn(window, localMs)) ? null : { reason: null }
}

function isIn({ days, from, to }: Window, localMs: number): boolean {
  const named = daysOf(days) ?? new Set()
  const at = new Date(localMs)
  const minutes = at.getUTCHours() * 60 + at.getUTCMinutes()
  const [opens, closes] = [minutesOf(from), minutesOf(to)]
  const today = named.has(at.getUTCDay())
  if (opens < closes) return today && opens <= minutes && minutes < closes
  const yesterday = named.has((at.getUTCDay() + 6) % 7)
  return (today && minutes >= opens) || (yesterday && minutes < closes)
}

function nextOpening(windows: Windows, ms: number, format: Intl.DateTimeFormat): number | null {
  const midnight = Math.floor(localMsOf(ms, format) / dayMs) * dayMs
  // A freeze ends at midnight, also in the middle of a window.
  const opens = [...new Set([0, ...windows.allow.map(({ from }) => minutesOf(from))])].sort((a, b) => a - b)
  for (let day = 0; day < searchedDays; day++) {
    const from = midnight + day * dayMs
    const moments = [
      ...opens.flatMap(minutes => momentsOf(from + minutes * 60_000, format)),
      ...changesOn(from, format)
    ]
    // Of two windows in an hour that comes twice, the later one opens before the first one opens again.
    const at = moments.filter(each => each > ms && closedAt(windows, localMsOf(each, format)) === null)
    if (at.length > 0) return Math.min(...at)
  }
  return null
}

/** Returns windows as words: `mon-thu 09:00-16:00 (Europe/Berlin)`. */
export function windowWords({ allow, tz }: Windows): string {
  const parts = allow.map(({ days, from, to }) => `${days} ${from}-${to}`)
  return `${parts.length === 0 ? 'at any time' : parts.join(', ')} (${tz})`
}
