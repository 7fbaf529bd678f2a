import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Calls, DeploymentPage, DeploymentQuery } from '../server/calls.js'

/** Deployments as far as they were loaded, newest first, and how many there are. */
export type Shown = DeploymentPage

/** Of one request. */
export const pageSize = 100

/** The filter, and the page of its newest. */
export type ListQuery = Pick<DeploymentQuery, 'projectId' | 'status' | 'branch' | 'commit'>

/** The newest again, put in front of those that are known: where they do not meet, those further down are let go. */
export async function refreshed(
  calls: Pick<Calls, 'deployments'>, query: ListQuery, knownNow: () => Shown | undefined, signal: AbortSignal
): Promise<Shown> {
  const newest = await calls.deployments({ ...query, limit: pageSize }, signal)
  const known = knownNow()
  return known === undefined ? newest : merged(known, newest)
}

/** Pure. */
export function merged(known: Shown, newest: Shown): Shown {
  const last = newest.items.at(-1)
  const at = last === undefined ? -1 : known.items.findIndex(({ id }) => id === last.id)
  const items = at === -1 ? newest.items : [...newest.items, ...known.items.slice(at + 1)]
  // What was deleted further down is still in the list until it is loaded anew.
  return { items: items.length > newest.total ? newest.items : items, total: newest.total }
}

/** Those after the last that is known. */
export async function continued(
  calls: Pick<Calls, 'deployments'>, query: ListQuery, known: Shown, signal: AbortSignal
): Promise<Shown> {
  const { items, total } = await calls.deployments({ ...query, limit: pageSize, before: known.items.at(-1)?.id }, signal)
  const ids = new Set(known.items.map(({ id }: DeploymentRow) => id))
  return { items: [...known.items, ...items.filter(({ id }) => !ids.has(id))], total }
}
