import { countOf, oneLine } from '../../base/text.js'
import { daysLeftOf, reminderDays } from '../../model/token-advice.js'
import type { UploadPermit } from '../../model/upload-permit.js'

/** Returns a line about a token that expires within 14 days; null if it does not, or has no end. */
export function tokenEndLine(permit: UploadPermit | null, nowMs: number): string | null {
  const { token } = permit ?? {}
  if (token === undefined) return null
  const days = daysLeftOf(token, nowMs)
  if (days > reminderDays[0]) return null
  const name = oneLine(token.name)
  const day = token.expiresAt.slice(0, 10)
  return `The token "${name}" expires in ${countOf(days, 'day')}, on ${day}. An administrator can replace its secret: svc token rotate "${name}"`
}
