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

import { visibleText } from './visible-text.js'

/** Number of characters at the start of a line that are searched for a time. */
const headLength = 300

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
  const head = visibleText(text.slice(0, headLength))
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
  if (found === null) return null
  const [, year, month, day, hour, minute, second = '0', fraction, zone] = found
  return instant({
    year: Number(year),
    month: Number(month),
    day: Number(day),
    hour: Number(hour),
    minute: Number(minute),
    second: Number(second),
    fraction,
    zone
  })
}

function accessTime(text: string, instant: Instant): number | null {
  const found = access.exec(text)
  if (found === null) return null
  const [, day, month, year, hour, minute, second, zone] = found
  return instant({
    year: Number(year),
    month: monthOf(month as string),
    day: Number(day),
    hour: Number(hour),
    minute: Number(minute),
    second: Number(second),
    zone
  })
}

function slashTime(text: string, instant: Instant): number | null {
  const found = slashes.exec(text)
  if (found === null) return null
  const [, year, month, day, hour, minute, second, fraction] = found
  return instant({
    year: Number(year),
    month: Number(month),
    day: Number(day),
    hour: Number(hour),
    minute: Number(minute),
    second: Number(second),
    fraction
  })
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
