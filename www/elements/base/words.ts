/* Formats values for people. Pure; the time zone comes from the runtime unless a caller passes one. */
import type { DeploymentRow, StepName } from '../../../lib/model/deployment.js'
import type { Provenance } from '../../../lib/model/provenance.js'
import { language as languageNow, t } from '../../words/t.js'
import type { BrokenProject, DeploymentBrief } from '../../../lib/model/health.js'
import type { AccessRole } from '../../../lib/model/access.js'
import type { Restriction } from '../../server/requests.js'
import { shownStatus, waitingRows } from '../../shared/api.js'
import type { Marks, Waiting } from '../../../lib/model/marks.js'
import { holderNow } from '../../state/session.js'

/** Language and time zone. Defaults: those of the reader. */
export interface Locale {
  language?: string
  timeZone?: string
}

const ownLanguage = (): string => (languageNow() === 'zh' ? 'zh-CN' : 'en-GB')

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** Returns the client address, and the address the client claimed if it differs: `203.0.113.9, claims 10.0.0.1`. */
export function addressWords(seen: string | null, claimed: string | null | undefined): string | null {
  return claimed ? t('{seen}, claims {claimed}', { seen: seen ?? '', claimed }) : seen
}

/**
 * Returns a relative time for recent times and the date for others: `just now`, `4 min ago`, `yesterday 14:03`, `12 Mar
 * 14:03`.
 */
export function agoWords(at: string, nowMs: number, locale: Locale = {}): string {
  const atMs = Date.parse(at)
  const passedMs = nowMs - atMs
  if (passedMs < minuteMs && passedMs > -minuteMs) return t('just now')
  if (passedMs >= 0 && passedMs < hourMs) return t('{count} min ago', { count: Math.floor(passedMs / minuteMs) })
  if (passedMs >= 0 && passedMs < 12 * hourMs) return t('{count} h ago', { count: Math.floor(passedMs / hourMs) })
  const dayOf = (ms: number): string => formatted('isoDay', ms, { ...locale, language: 'en-CA' })
  const [day, today] = [dayOf(atMs), dayOf(nowMs)]
  const time = formatted('time', atMs, locale)
  if (day === today) return t('today {time}', { time })
  if (day === dayOf(nowMs - dayMs)) return t('yesterday {time}', { time })
  return `${formatted(day.slice(0, 4) === today.slice(0, 4) ? 'date' : 'dateOfYear', atMs, locale)} ${time}`
}

/** Returns the exact time with its zone: `Sat 21 Nov 2026, 03:22:55 GMT`. */
export function exactWords(at: string, locale: Locale = {}): string {
  return formatted('exact', Date.parse(at), locale)
}

/** Returns the time of day in milliseconds, for a line of output: `03:22:55.123`. */
export function clockWords(at: string, locale: Locale = {}): string {
  return formatted('clock', Date.parse(at), { ...locale, language: 'en-GB' })
}

/** Returns the time of day: `03:22`. */
export function timeWords(at: string): string {
  return formatted('time', Date.parse(at))
}

/** Returns the time of day in seconds: `03:22:55`. */
export function clockTimeWords(at: string): string {
  return formatted('seconds', Date.parse(at))
}

/** Returns the day of a time: `Sat 21 Nov 2026`. */
export function dateWords(at: string): string {
  return formatted('day', Date.parse(at))
}

/** Returns a day of the statistics, whose days are in UTC: `21 Nov`. */
export function dayWords(date: string): string {
  return formatted('date', Date.parse(date), { timeZone: 'UTC' })
}

/** Returns the month of a day of the statistics: `Nov`. */
export function monthWords(date: string): string {
  return formatted('month', Date.parse(date), { timeZone: 'UTC' })
}

/** Returns the weekday of a day of the statistics: `Mon`. */
export function weekdayWords(date: string): string {
  return formatted('weekday', Date.parse(date), { timeZone: 'UTC' })
}

const shapes = {
  isoDay: {},
  time: { hour: '2-digit', minute: '2-digit' },
  seconds: { hour: '2-digit', minute: '2-digit', second: '2-digit' },
  date: { day: 'numeric', month: 'short' },
  dateOfYear: { day: 'numeric', month: 'short', year: 'numeric' },
  day: { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' },
  exact: {
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    year: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    timeZoneName: 'short'
  },
  clock: { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 },
  month: { month: 'short' },
  weekday: { weekday: 'short' }
} as const satisfies Record<string, Intl.DateTimeFormatOptions>

/**
 * Cached formatters. Creating one takes as long as fifty uses; this was a third of the time to scroll a list of times.
 */
const formatters = new Map<string, Intl.DateTimeFormat>()

function formatted(
  shape: keyof typeof shapes,
  atMs: number,
  { language = ownLanguage(), timeZone }: Locale = {}
): string {
  const key = `${shape} ${language} ${timeZone ?? ''}`
  let formatter = formatters.get(key)
  if (formatter === undefined) {
    formatter = new Intl.DateTimeFormat(language, { ...shapes[shape], ...(timeZone === undefined ? {} : { timeZone }) })
    formatters.set(key, formatter)
  }
  return formatter.format(atMs)
}

/** Returns a duration: `40 ms`, `1.2 s`, `12 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export function spanWords(ms: number): string {
  if (ms < 1) return `0 ${t('s')}`
  if (ms < 100) return `${Math.round(ms)} ${t('ms')}`
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} ${t('s')}`
  const pair = ([bigMs, big]: [number, string], [smallMs, small]: [number, string]): string => {
    const rest = Math.floor((ms % bigMs) / smallMs)
    return `${Math.floor(ms / bigMs)} ${t(big)}${rest === 0 ? '' : ` ${rest} ${t(small)}`}`
  }
  if (ms < minuteMs) return `${Math.floor(ms / 1000)} ${t('s')}`
  if (ms < hourMs) return pair([minuteMs, 'min'], [1000, 's'])
  if (ms < dayMs) return pair([hourMs, 'h'], [minuteMs, 'min'])
  return pair([dayMs, 'd'], [hourMs, 'h'])
}

/** Returns whole seconds as a duration: `2 s`, `3 min 5 s`. */
export function secondsWords(seconds: number): string {
  return seconds < 10 ? `${seconds} ${t('s')}` : spanWords(seconds * 1000)
}

/** Returns a percentage: `0.4 %`, `12 %`, `100 %`. */
export function percentWords(percent: number): string {
  return `${percent !== 0 && percent < 9.95 ? Math.round(percent * 10) / 10 : Math.round(percent)} %`
}

/** Masks all but the last four characters of a secret, so that secrets can be told apart. */
export function maskWords(secret: string): string {
  return `••••••••${secret.slice(-4)}`
}

/** The steps of a deployment in order, with their labels. Optional ones occur only where they are needed. */
export const stepWords: ReadonlyArray<{ name: StepName; words: string; isOptional?: true }> = [
  { name: 'store', words: 'Store archive' },
  { name: 'rollout', words: 'Rollout', isOptional: true },
  { name: 'target', words: 'Prepare target' },
  { name: 'preDeploy', words: 'Pre-deploy script' },
  { name: 'extract', words: 'Extract' },
  { name: 'postDeploy', words: 'Post-deploy script' },
  { name: 'check', words: 'Checks', isOptional: true },
  { name: 'confirm', words: 'Confirmation', isOptional: true },
  { name: 'revert', words: 'Put earlier files back', isOptional: true },
  { name: 'onFailure', words: 'On-failure script', isOptional: true },
  { name: 'cleanup', words: 'Clean up' }
]

/** Returns the title of a deployment within its project: its message, its commit's subject, or what started it. */
export function deploymentWords({
  message,
  triggerSource,
  provenance,
  undoOf = null
}: Pick<DeploymentRow, 'message' | 'triggerSource'> & Partial<Pick<DeploymentRow, 'provenance' | 'undoOf'>>): string {
  if (message !== null && message !== '') return message
  const subject = provenance?.subject ?? null
  if (triggerSource === 'repair') return t('Repair')
  if (triggerSource === 'promotion') return subject ?? t('Promotion')
  if (undoOf !== null) return t('Undo')
  if (triggerSource === 'rollback') return subject === null ? t('Rollback') : t('Rollback: {subject}', { subject })
  return subject ?? (provenance?.source === 'panel' ? t('From the panel') : t('Pushed'))
}

/** Returns the first digits of a commit; a star means that files differed from it. Null if there is no commit. */
export function commitWords({ commit, dirty }: Provenance): string | null {
  return commit === null ? null : `${commit.slice(0, 7)}${dirty === true ? '*' : ''}`
}

/** Returns the whole commit id, and whether there were uncommitted changes. */
export function commitTitle({ commit, dirty }: Provenance): string {
  return dirty === true ? t('{commit}, with uncommitted changes', { commit: commit ?? '' }) : (commit ?? '')
}

/** Returns the first digits of a tree, which are enough to tell trees apart. */
export function shortTree(tree: string): string {
  return tree.slice(0, 8)
}

/* What waits for somebody, and marks of projects. Pure. */

/** Returns what waits for somebody: `waits for confirmation until 18:34`. */
export function waitingWords({ for: reason, until }: Pick<Waiting, 'for' | 'until'>, nowMs: number): string {
  const row = waitingRows[reason]
  if (until === null || row.until === null) return t(row.words)
  const dayOf = (ms: number): string => formatted('isoDay', ms, { language: 'en-CA' })
  const atMs = Date.parse(until)
  const day = dayOf(atMs) === dayOf(nowMs) ? '' : `${formatted('date', atMs, {})} `
  return t(row.until.words, { time: `${day}${formatted('time', atMs, {})}` })
}

/** Whether a deployment is queued or running. */
export function isGoing({ status }: { status: string }): boolean {
  return status === 'queued' || status === 'running'
}

/** Returns the status of a project that people see. */
export function projectStatus<S extends string>(
  { id, status }: { id: string; status: S },
  { waiting, failedInBackground }: Pick<Marks, 'waiting' | 'failedInBackground'>
): S | 'waiting' | 'failed' {
  if (isGoing({ status }) && waiting.some(({ projectId }) => projectId === id)) return 'waiting'
  return shownStatus(status, failedInBackground.includes(id))
}

/** Returns the deployment that a broken project can be rolled back to; null: none, or its files are live already. */
export function wayBackOf({ lastGood, isLastGoodLive, goingId }: BrokenProject): DeploymentBrief | null {
  return lastGood === null || isLastGoodLive || !lastGood.hasArtifact || goingId !== null ? null : lastGood
}

/** Returns what a list shows beside the status of a project: what waits, whether it is locked, or in maintenance. */
export function projectMarks(
  id: string,
  { waiting, locks }: Pick<Marks, 'waiting' | 'locks'>,
  nowMs: number
): string[] {
  return [
    ...waiting.filter(({ projectId }) => projectId === id).map(each => waitingWords(each, nowMs)),
    ...inForce(locks, nowMs)
      .filter(({ projectId }) => projectId === id)
      .map(({ kind }) => (kind === 'lock' ? t('locked') : t('in maintenance')))
  ]
}

/* Labels of the roles. Pure. */

/** Labels of the roles. English; passed to t(). */
export const roleWords: Readonly<Record<AccessRole, string>> = {
  viewer: 'Viewer',
  deployer: 'Deployer',
  operator: 'Operator',
  admin: 'Admin'
}

/* Formats locks for people. Pure. */

/** Whether the signed-in user placed the lock. */
export function isOwnLock({ owner }: Pick<Restriction, 'owner'>): boolean {
  return owner === (holderNow()?.name ?? 'admin')
}

/** Returns the locks that have not expired. A maintenance never expires. */
export function inForce(locks: readonly Restriction[], nowMs: number): readonly Restriction[] {
  return locks.filter(({ expiresAt }) => expiresAt === null || Date.parse(expiresAt) > nowMs)
}
