import { type Clock, instantOf } from '../../base/clock.js'
import type { Reader } from '../store/database.js'
import { latestAuditCheckpoint } from '../store/tables/audit.js'

/**
 * Returns the latest time that a server knows of, as ISO text: that of its clock, or a later one that the clock has shown
 * before or that a checkpoint of the audit log has. So what has expired stays so if somebody sets the clock back.
 */
export function seenTime(db: Reader, clock: Clock): string {
  const now = instantOf(clock)
  if (clock.isTrusted === true) return now
  const shown = clock.latest === undefined ? now : new Date(clock.latest()).toISOString()
  return [now, shown, latestAuditCheckpoint(db) ?? now].sort().at(-1) as string
}
