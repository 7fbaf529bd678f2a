import type { DeploymentRow } from '../../lib/model/deployment.js'

/* Which of a project's deployments is, or was, in its target. Pure. */

type Placed = Pick<DeploymentRow, 'id' | 'placed' | 'startTime' | 'status'>

/** The deployment whose files are in place: the last one that changed the target; null: none of these is known to. */
export function liveAmong<T extends Placed>(items: readonly T[]): T | null {
  return items.reduce<T | null>((live, item) => ((item.placed ?? 0) > (live?.placed ?? 0) ? item : live), null)
}

/**
 * What was in place before a deployment. If that is not known: the newest success before it, else the one before it, else
 * the first one after it.
 */
export function liveBefore<T extends Placed>(items: readonly T[], { id, placed, startTime }: Placed): T | null {
  const others = items.filter(item => item.id !== id)
  const earlier = others.filter(item => item.startTime < startTime)
  const wasThere = (item: T): boolean => (placed === null ? item.startTime < startTime : (item.placed ?? 0) < placed)
  return liveAmong(others.filter(wasThere)) ?? earlier.find(({ status }) => status === 'success') ?? earlier[0] ?? others.at(-1) ?? null
}
