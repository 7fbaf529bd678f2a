/*
 * What is in place on the node, for the hub: the deployment of the hub whose files are there, and whether they are no
 * longer those: somebody pushed to the node itself, or edited files. Edited files are searched for now and then.
 */
import type { AgentReport } from '../../model/fleet-wire.js'
import type { DeploymentRow } from '../../model/deployment.js'
import type { Reader } from '../../store/database.js'
import { liveDeployment } from '../../store/tables/deployments.js'
import { findHubDeployment } from '../../store/tables/duties.js'
import type { LocalDeployer } from './local.js'

/** What is in place. */
export interface Live {
  of(projectId: string): AgentReport['placements'][number]
  /** Searches for edited files of a project. Returns whether the answer of `of` has changed. */
  search(projectId: string, signal: AbortSignal): Promise<boolean>
}

/** Creates the view of what is in place. */
export function createLive({ store, deployer }: { store: Reader; deployer: LocalDeployer }): Live {
  /** The deployment after which files were edited, by project. */
  const edited = new Map<string, string>()

  return {
    of(projectId) {
      const live = liveDeployment(store, projectId)
      if (live === undefined) return { projectId, liveDeployId: null, liveTree: null, isDrifted: false }
      const made = findHubDeployment(store, live.id)
      return {
        projectId,
        liveDeployId: made?.deployId ?? null,
        liveTree: treeOf(live),
        isDrifted: made === undefined || edited.get(projectId) === live.id
      }
    },
    async search(projectId, signal) {
      const live = liveDeployment(store, projectId)
      if (live === undefined || deployer.hasRunning(projectId)) return false
      const { count } = await deployer.drift({ projectId, isFull: false, signal })
      const wasEdited = edited.get(projectId) === live.id
      if (count > 0) edited.set(projectId, live.id)
      else edited.delete(projectId)
      return wasEdited !== count > 0
    }
  }
}

/** The tree of the files in place. A deployment that only brought back what differed has no tree of its own. */
function treeOf({ exact, treeSha256 }: DeploymentRow): string | null {
  return exact ? null : treeSha256
}
