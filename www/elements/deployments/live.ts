import type { DeploymentRow } from '../../../lib/model/deployment.js'

/* Finds the deployment whose files are, or were, in the target of a project. Pure. */

type Placed = Pick<DeploymentRow, 'id' | 'placed' | 'startTime' | 'status'>

/** Returns the last deployment that changed the target, or null if none of these is known to have changed it. */
export function liveAmong<T extends Placed>(items: readonly T[]): T | null {
  return items.reduce<T | null>((live, item) => ((item.placed ?? 0) > (live?.placed ?? 0) ? item : live), null)
}

/**
 * Returns the deployment that was live before the given one. If that is unknown, returns the newest successful
 * deployment before it, else the one before it, else the first one after it.
 */
export function liveBefore<T extends Placed>(items: readonly T[], { id, placed, startTime }: Placed): T | null {
  const others = items.filter(item => item.id !== id)
  const earlier = others.filter(item => item.startTime < startTime)
  const wasThere = (item: T): boolean => (placed === null ? item.startTime < startTime : (item.placed ?? 0) < placed)
  return (
    liveAmong(others.filter(wasThere)) ??
    earlier.find(({ status }) => status === 'success') ??
    earlier[0] ??
    others.at(-1) ??
    null
  )
}
