import type { DeploymentRow } from '../../lib/model/deployment.js'
import type { Calls, DeploymentPage, DeploymentQuery } from '../server/calls.js'

/** The loaded deployments, newest first, and the total number. */
export type Shown = DeploymentPage

/** Number of deployments per request. */
export const pageSize = 100

/** The filter of the list. */
export type ListQuery = Pick<DeploymentQuery, 'projectId' | 'status' | 'branch' | 'commit'>

/** What a request for the list needs. */
interface ListNeeds {
  calls: Pick<Calls, 'deployments'>
  query: ListQuery
  signal: AbortSignal
}

/** Loads the newest page and puts it before the known deployments. If there is a gap, older ones are dropped. */
export async function refreshed(
  { calls, query, signal }: ListNeeds,
  knownNow: () => Shown | undefined
): Promise<Shown> {
  const newest = await calls.deployments({ ...query, limit: pageSize }, signal)
  const known = knownNow()
  return known === undefined ? newest : merged(known, newest)
}

/** Returns the newest page followed by the older known deployments. Pure. */
export function merged(known: Shown, newest: Shown): Shown {
  const last = newest.items.at(-1)
  const at = last === undefined ? -1 : known.items.findIndex(({ id }) => id === last.id)
  const items = at === -1 ? newest.items : [...newest.items, ...known.items.slice(at + 1)]
  // A deleted deployment further down stays in the list until the list is loaded again.
  return { items: items.length > newest.total ? newest.items : items, total: newest.total }
}

/** Loads the page after the last known deployment. */
export async function continued({ calls, query, signal }: ListNeeds, known: Shown): Promise<Shown> {
  const { items, total } = await calls.deployments(
    { ...query, limit: pageSize, before: known.items.at(-1)?.id },
    signal
  )
  const ids = new Set(known.items.map(({ id }: DeploymentRow) => id))
  return { items: [...known.items, ...items.filter(({ id }) => !ids.has(id))], total }
}
