import { isInScope } from '../model/access.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { Reader } from '../store/database.js'
import {
  countDeployments,
  findDeployment,
  listDeployments,
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
      const startOf = (id: string | undefined): string | undefined =>
        id === undefined ? undefined : findDeployment(db, id)?.startTime
      const beforeTime = startOf(before)
      const added = kept()
        .map(({ end }) => end)
        .filter(end => {
          return (
            query.status !== undefined &&
            !query.newest &&
            isMatch(end, query) &&
            (beforeTime === undefined || end.startTime < beforeTime)
          )
        })
      if (added.length === 0) return rows.map(ends.current).filter(row => isMatch(row, query))
      const all = [...rows.map(ends.current).filter(row => isMatch(row, query)), ...added]
      return all
        .sort((a, b) => (a.startTime < b.startTime ? 1 : a.startTime > b.startTime ? -1 : 0))
        .slice(0, query.limit)
    },
    count(filter) {
      const counted = (row: DeploymentRow): number => Number(isMatch(row, filter))
      return kept().reduce((total, { was, end }) => total + counted(end) - counted(was), countDeployments(db, filter))
    }
  }
}

function isMatch(row: DeploymentRow, { projectId, projects, status, branch, commit }: DeploymentFilter): boolean {
  const { provenance } = row
  return (
    (projectId === undefined || row.projectId === projectId) &&
    isInScope(projects, row.projectId) &&
    (status === undefined || row.status === status) &&
    (branch === undefined || provenance?.branch === branch) &&
    (commit === undefined || provenance?.commit?.startsWith(commit) === true)
  )
}
