import { oneLine } from '../../base/text.js'
import type { AccessToken, ListedToken, TokenAdvice } from '../../model/access.js'
import { unusedDays } from '../../model/token-advice.js'
import { relativeTime } from '../terminal/units.js'

const dayMs = 24 * 60 * 60_000

/** Returns the end of a token, seen from now: `expires in 88 days`, `revoked`. */
export function endOf({ expiresAt, revokedAt }: Pick<AccessToken, 'expiresAt' | 'revokedAt'>, nowMs: number): string {
  if (revokedAt !== null) return `revoked ${relativeTime(revokedAt, nowMs)}`
  const leftMs = Date.parse(expiresAt) - nowMs
  if (leftMs <= 0) return `expired ${relativeTime(expiresAt, nowMs)}`
  if (leftMs < dayMs) return `expires at ${expiresAt.slice(11, 16)} UTC`
  const days = Math.floor(leftMs / dayMs)
  return days === 1 ? 'expires in 1 day' : `expires in ${days} days`
}

/** Returns the last use of a token: `4m ago from 10.0.0.7`. */
export function useOf(
  { lastUsedAt, lastUsedIp }: Pick<AccessToken, 'lastUsedAt' | 'lastUsedIp'>,
  nowMs: number
): string {
  if (lastUsedAt === null) return 'never'
  return lastUsedIp === null ? relativeTime(lastUsedAt, nowMs) : `${relativeTime(lastUsedAt, nowMs)} from ${lastUsedIp}`
}

const adviceWords: Readonly<Record<TokenAdvice, string>> = {
  expires_soon: 'expires soon',
  unused: `unused for ${unusedDays} days`,
  rotate: 'old secret'
}

/** Returns what is remarkable about a token: a second factor, a near end, no use, an old secret. */
export function remarksOf({ advice, secondFactor }: Pick<ListedToken, 'advice' | 'secondFactor'>): string {
  return [...(secondFactor ? ['second factor'] : []), ...advice.map(each => adviceWords[each])].join(', ')
}

/** Returns the projects of a token. `names` maps ids to names; a removed project is shown by its id. */
export function scopeOf({ projectIds }: Pick<AccessToken, 'projectIds'>, names: ReadonlyMap<string, string>): string {
  if (projectIds === null) return 'all projects'
  return oneLine(projectIds.map(id => names.get(id) ?? id).join(', '))
}
