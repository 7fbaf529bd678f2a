import { isInScope } from '../model/access.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { Reader } from '../store/database.js'
import {
  ageOfDeployment,
  countDeployments,
  findDeployment,
  listDeployments,
  newestOfEvery,
  newerFirst,
  type DeploymentAge,
  type DeploymentFilter
} from '../store/tables/deployments.js'
import type { Ends } from './ends.js'

/** Filter and page of a list of deployments. */
export type ListQuery = DeploymentFilter & { limit: number; before?: string | undefined }

/** Lists of deployments that include results which are not recorded yet (ends.ts). */
export interface ListedDeployments {
  find(deployId: string): DeploymentRow | undefined
  /** See `listDeployments` of the store. */
  list(query: ListQuery): DeploymentRow[]
  /** See `newestOfEvery` of the store. */
  newestOfEvery(wanted: Parameters<typeof newestOfEvery>[1]): string[]
  /** See `countDeployments` of the store. */
  count(filter: DeploymentFilter): number
}

/** Creates the lists. `ends` contains the results that are not recorded yet. */
export function createListed(db: Reader, ends: Pick<Ends, 'current' | 'kept'>): ListedDeployments {
  /** Returns the kept results that still have a record, with that record. */
  function kept(): Array<{ was: DeploymentRow; end: DeploymentRow }> {
    return ends.kept().flatMap(end => {
      const was = findDeployment(db, end.id)
      return was === undefined ? [] : [{ was, end }]
    })
  }

  return {
    find(deployId) {
      const row = findDeployment(db, deployId)
      return row === undefined ? undefined : ends.current(row)
    },
    list({ before, ...query }) {
      const rows = listDeployments(db, { ...query, ...(before !== undefined && { before }) })
      const ageOf = (id: string): DeploymentAge => ageOfDeployment(db, id) ?? { orderedAt: '', position: 0 }
      const end = before === undefined ? null : ageOf(before)
      const added = kept()
        .map(({ end }) => end)
        .filter(row => {
          return (
            query.status !== undefined &&
            !query.newest &&
            isMatch(row, query) &&
            (end === null || newerFirst(ageOf(row.id), end) > 0)
          )
        })
      if (added.length === 0) return rows.map(ends.current).filter(row => isMatch(row, query))
      const all = [...rows.map(ends.current).filter(row => isMatch(row, query)), ...added]
      return all
        .map(row => ({ row, age: ageOf(row.id) }))
        .sort((a, b) => newerFirst(a.age, b.age))
        .slice(0, query.limit)
        .map(({ row }) => row)
    },
    newestOfEvery: wanted => newestOfEvery(db, wanted),
    count(filter) {
      const counted = (row: DeploymentRow): number => Number(isMatch(row, filter))
      return kept().reduce((total, { was, end }) => total + counted(end) - counted(was), countDeployments(db, filter))
    }
  }
}

function isMatch(
  row: DeploymentRow,
  { projectId, projects, status, branch, commit, traceId }: DeploymentFilter
): boolean {
  const { provenance } = row
  return (
    (projectId === undefined || row.projectId === projectId) &&
    isInScope(projects, row.projectId) &&
    (status === undefined || row.status === status) &&
    (traceId === undefined || row.traceId === traceId) &&
    (branch === undefined || provenance?.branch === branch) &&
    (commit === undefined || provenance?.commit?.startsWith(commit) === true)
  )
}
