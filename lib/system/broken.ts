import { listedDeployment, type DeploymentRow } from '../model/deployment.js'
import type { BrokenProject, BrokenProjects, DeploymentBrief } from '../model/overview.js'
import type { Reader } from '../store/database.js'
import {
  countBrokenProjects, findBrokenProject, lastGoodDeployment, listBrokenProjects, type BrokenRow
} from '../store/tables/broken-projects.js'
import { goingDeploymentId, liveDeployment } from '../store/tables/deployments.js'

/** Which projects are broken now: the newest finished deployment failed, also in the background. */
export interface Broken {
  /** Those that have been broken for the longest first, at most `limit`. */
  list(limit: number): BrokenProjects
  /** Null: the project is not broken. */
  of(projectId: string): BrokenProject | null
}

export interface BrokenNeeds {
  store: Reader
  /** The record as it is in truth, with an end that could not be recorded yet. */
  findDeployment(id: string): DeploymentRow | undefined
}

export function createBroken({ store, findDeployment }: BrokenNeeds): Broken {
  function describe({ deployId, ...row }: BrokenRow): BrokenProject[] {
    const failed = findDeployment(deployId)
    if (failed === undefined) return []
    const lastGood = lastGoodDeployment(store, row.projectId)
    return [{
      ...row,
      failed: brief(failed),
      lastGood: lastGood === undefined ? null : brief(lastGood),
      isLastGoodLive: lastGood !== undefined && liveDeployment(store, row.projectId)?.id === lastGood.id,
      goingId: goingDeploymentId(store, row.projectId) ?? null
    }]
  }

  return {
    list: limit => ({ total: countBrokenProjects(store), items: listBrokenProjects(store, limit).flatMap(describe) }),
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
    id, status, triggerSource, message, provenance, startTime, endTime, errorMessage, hasArtifact,
    ...(backgroundFailed !== undefined && { backgroundFailed })
  }
}
