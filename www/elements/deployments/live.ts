import type { DeploymentRow } from '../../../lib/model/deployment.js'

/* Finds the deployment whose files are, or were, in the target of a project. Pure. */

type Placed = Pick<DeploymentRow, 'id' | 'placed' | 'status'>

/** Returns the last deployment that changed the target, or null if none of these is known to have changed it. */
export function liveAmong<T extends Placed>(items: readonly T[]): T | null {
  return items.reduce<T | null>((live, item) => ((item.placed ?? 0) > (live?.placed ?? 0) ? item : live), null)
}

/**
 * Returns the deployment that was live before the given one, among these, which begin with the newest. A deployment that
 * is not among them is older than all. If that is unknown, returns the newest successful
 * deployment before it, else the one before it, else the first one after it.
 */
export function liveBefore<T extends Placed>(items: readonly T[], { id, placed }: Placed): T | null {
  const others = items.filter(item => item.id !== id)
  const at = items.findIndex(item => item.id === id)
  const earlier = at === -1 ? [] : items.slice(at + 1)
  const wasThere = (item: T): boolean => (placed === null ? earlier.includes(item) : (item.placed ?? 0) < placed)
  return (
    liveAmong(others.filter(wasThere)) ??
    earlier.find(({ status }) => status === 'success') ??
    earlier[0] ??
    others.at(-1) ??
    null
  )
}
