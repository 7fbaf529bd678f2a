import type { ProjectScope } from '../model/access.js'
import { listedDeployment, type DeploymentRow } from '../model/deployment.js'
import type { BrokenProject, BrokenProjects, DeploymentBrief } from '../model/overview.js'
import type { Reader } from '../store/database.js'
import {
  countBrokenProjects,
  findBrokenProject,
  lastGoodDeployment,
  listBrokenProjects,
  type BrokenRow
} from '../store/tables/projects.js'
import { goingDeploymentId, liveDeployment } from '../store/tables/deployments.js'

/** The projects that are broken now: their newest finished deployment failed, possibly in the background. */
export interface Broken {
  /** Returns at most `limit` projects of a scope, those broken for the longest time first. */
  list(limit: number, scope?: ProjectScope): BrokenProjects
  /** Returns the failure of a project, or null if it is not broken. */
  of(projectId: string): BrokenProject | null
}

/** What `createBroken` needs. */
export interface BrokenNeeds {
  store: Reader
  /** Returns the current record, with a result that is not stored yet. */
  findDeployment(id: string): DeploymentRow | undefined
}

/** Creates the list of broken projects. */
export function createBroken({ store, findDeployment }: BrokenNeeds): Broken {
  function describe({ deployId, ...row }: BrokenRow): BrokenProject[] {
    const failed = findDeployment(deployId)
    if (failed === undefined) return []
    const lastGood = lastGoodDeployment(store, row.projectId)
    return [
      {
        ...row,
        failed: brief(failed),
        lastGood: lastGood === undefined ? null : brief(lastGood),
        isLastGoodLive: lastGood !== undefined && liveDeployment(store, row.projectId)?.id === lastGood.id,
        goingId: goingDeploymentId(store, row.projectId) ?? null
      }
    ]
  }

  return {
    list: (limit, scope) => ({
      total: countBrokenProjects(store, scope),
      items: listBrokenProjects(store, limit, scope).flatMap(describe)
    }),
    of(projectId) {
      const row = findBrokenProject(store, projectId)
      return row === undefined ? null : (describe(row)[0] ?? null)
    }
  }
}

function brief(row: DeploymentRow): DeploymentBrief {
  const { id, status, triggerSource, message, provenance, startTime, endTime, errorMessage, hasArtifact } = row
  const { backgroundFailed } = listedDeployment(row)
  return {
    id,
    status,
    triggerSource,
    message,
    provenance,
    startTime,
    endTime,
    errorMessage,
    hasArtifact,
    ...(backgroundFailed !== undefined && { backgroundFailed })
  }
}
