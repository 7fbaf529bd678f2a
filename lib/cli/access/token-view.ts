import { oneLine } from '../../base/one-line.js'
import type { AccessToken } from '../../model/access.js'
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

/** Returns the projects of a token. `names` maps ids to names; a removed project is shown by its id. */
export function scopeOf({ projectIds }: Pick<AccessToken, 'projectIds'>, names: ReadonlyMap<string, string>): string {
  if (projectIds === null) return 'all projects'
  return oneLine(projectIds.map(id => names.get(id) ?? id).join(', '))
}
