import { agoWords, type Locale } from './words.js'
import { t } from '../../words/t.js'

const statuses: Readonly<Record<string, string>> = {
  queued: 'Queued',
  running: 'Running',
  success: 'Success',
  failed: 'Failed'
}
const ending = /^(.*?)(?: · (queued|running|success|failed))? · (\d{4}-\d\d-\d\dT[\d:.]+Z)$/s

/**
 * Returns the subtitle of a search result in words: a time in the reader's format and time zone, a status in the
 * reader's language. Any other text is returned unchanged. Pure.
 */
export function foundWords(subtitle: string, nowMs: number, locale: Locale = {}): string {
  const [, before, status, at] = ending.exec(subtitle) ?? []
  if (before === undefined || at === undefined || Number.isNaN(Date.parse(at))) return subtitle
  const state = status === undefined ? [] : [t(statuses[status] as string)]
  return [before, ...state, agoWords(at, nowMs, locale)].join(' · ')
}
