import type { DeploymentRow, StepName } from '../../lib/model/deployment.js'
import { language as languageNow, t } from '../words/t.js'

/* Values as words for people. Pure; the reader's zone comes from the runtime unless a test hands another in. */

export interface Locale {
  language?: string
  timeZone?: string
}

const ownLanguage = (): string => (languageNow() === 'zh' ? 'zh-CN' : 'en-GB')

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** How long ago, while that says more than the date: `just now`, `4 min ago`, `yesterday 14:03`, `12 Mar 14:03`. */
export function agoWords(at: string, nowMs: number, locale: Locale = {}): string {
  const atMs = Date.parse(at)
  const passedMs = nowMs - atMs
  if (passedMs < minuteMs && passedMs > -minuteMs) return t('just now')
  if (passedMs >= 0 && passedMs < hourMs) return t('{count} min ago', { count: Math.floor(passedMs / minuteMs) })
  if (passedMs >= 0 && passedMs < 12 * hourMs) return t('{count} h ago', { count: Math.floor(passedMs / hourMs) })
  const { language = ownLanguage(), timeZone } = locale
  const zone = timeZone === undefined ? {} : { timeZone }
  const day = (ms: number): string => new Intl.DateTimeFormat('en-CA', zone).format(ms)
  const time = new Intl.DateTimeFormat(language, { hour: '2-digit', minute: '2-digit', ...zone }).format(atMs)
  if (day(atMs) === day(nowMs)) return t('today {time}', { time })
  if (day(atMs) === day(nowMs - dayMs)) return t('yesterday {time}', { time })
  const isThisYear = day(atMs).slice(0, 4) === day(nowMs).slice(0, 4)
  const year: Intl.DateTimeFormatOptions = isThisYear ? {} : { year: 'numeric' }
  const date: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short', ...year }
  return `${new Intl.DateTimeFormat(language, { ...date, ...zone }).format(atMs)} ${time}`
}

/** The exact time with its zone: `Sat 21 Nov 2026, 03:22:55 GMT`. */
export function exactWords(at: string, locale: Locale = {}): string {
  const { language = ownLanguage(), timeZone } = locale
  return new Intl.DateTimeFormat(language, {
    weekday: 'short', day: 'numeric', month: 'short', year: 'numeric',
    hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short',
    ...(timeZone === undefined ? {} : { timeZone })
  }).format(Date.parse(at))
}

/** The time of day to the millisecond, for a line of output: `03:22:55.123`. */
export function clockWords(at: string, locale: Locale = {}): string {
  const { timeZone } = locale
  return new Intl.DateTimeFormat('en-GB', {
    hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
    ...(timeZone === undefined ? {} : { timeZone })
  }).format(Date.parse(at))
}

/** The time of day: `03:22`. */
export function timeWords(at: string, locale: Locale = {}): string {
  const { language = ownLanguage(), timeZone } = locale
  return new Intl.DateTimeFormat(language, {
    hour: '2-digit', minute: '2-digit', ...(timeZone === undefined ? {} : { timeZone })
  }).format(Date.parse(at))
}

/** A day of the statistics, which are those of UTC: `21 Nov`. */
export function dayWords(date: string): string {
  return new Intl.DateTimeFormat(ownLanguage(), { day: 'numeric', month: 'short', timeZone: 'UTC' }).format(Date.parse(date))
}

/** Its month: `Nov`. */
export function monthWords(date: string): string {
  return new Intl.DateTimeFormat(ownLanguage(), { month: 'short', timeZone: 'UTC' }).format(Date.parse(date))
}

/** Its weekday: `Mon`. */
export function weekdayWords(date: string): string {
  return new Intl.DateTimeFormat(ownLanguage(), { weekday: 'short', timeZone: 'UTC' }).format(Date.parse(date))
}

/** A span of time: `40 ms`, `1.2 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function spanWords(ms: number): string {
  if (ms < 1) return `0 ${t('s')}`
  if (ms < 100) return `${Math.round(ms)} ${t('ms')}`
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} ${t('s')}`
  const pair = (bigMs: number, big: string, smallMs: number, small: string): string => {
    const rest = Math.floor((ms % bigMs) / smallMs)
    return `${Math.floor(ms / bigMs)} ${t(big)}${rest === 0 ? '' : ` ${rest} ${t(small)}`}`
  }
  if (ms < minuteMs) return `${Math.floor(ms / 1000)} ${t('s')}`
  if (ms < hourMs) return pair(minuteMs, 'min', 1000, 's')
  if (ms < dayMs) return pair(hourMs, 'h', minuteMs, 'min')
  return pair(dayMs, 'd', hourMs, 'h')
}

/** A size: `812 B`, `4.2 KB`, `18 MB`, in steps of 1024. */
export function sizeWords(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = 0
  // 1023.5 would round to 1024 of its own unit.
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 || value >= 9.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

/** A share of a hundred: `0.4 %`, `12 %`, `100 %`. */
export function percentWords(percent: number): string {
  return `${percent !== 0 && percent < 9.95 ? Math.round(percent * 10) / 10 : Math.round(percent)} %`
}

/** A secret that can be told apart but not read. */
export function maskWords(secret: string): string {
  return `••••••••${secret.slice(-4)}`
}

/** The steps of a deployment in their order, as the reader knows them. */
export const stepWords: ReadonlyArray<{ name: StepName; words: string }> = [
  { name: 'store', words: 'Keep the archive' },
  { name: 'target', words: 'Prepare the target' },
  { name: 'preDeploy', words: 'Pre-deploy script' },
  { name: 'extract', words: 'Extract' },
  { name: 'postDeploy', words: 'Post-deploy script' },
  { name: 'cleanup', words: 'Clean up' }
]

/** What a deployment is called where its project is known: its message, or what started it. */
export function deploymentWords(deployment: Pick<DeploymentRow, 'message' | 'triggerSource'>): string {
  if (deployment.message !== null && deployment.message !== '') return deployment.message
  return deployment.triggerSource === 'rollback' ? t('Rolled back') : t('Pushed')
}

/** How long a deployment took, or has taken so far. */
export function durationMs(deployment: Pick<DeploymentRow, 'startTime' | 'endTime'>, nowMs: number): number {
  return (deployment.endTime === null ? nowMs : Date.parse(deployment.endTime)) - Date.parse(deployment.startTime)
}

/** An error as a sentence. */
export function errorWords(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
