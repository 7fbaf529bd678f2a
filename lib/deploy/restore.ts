import type { Transaction } from '../store/database.js'
import { findDeployment, placeDeployment, setBeforeFrom } from '../store/tables/deployments.js'
import { findProject, noteForeignChange } from '../store/tables/projects.js'
import type { Extracted } from '../install/unpack/extraction.js'
import { reservedPaths } from './maintenance.js'
import type { DeployNeeds } from './needs.js'
import { refusePlaced, refuseUnplaced } from './placed-run.js'
import { ownershipOf, type ExactChange } from './ownership.js'
import type { TargetTurns } from './target-turns.js'
import type { Trees } from './trees.js'

/** An archive to extract over the target of a project. */
export interface RestoreRequest {
  projectId: string
  /** Path of the archive. The file stays. */
  archivePath: string
  /** The deployment that the archive belongs to, which then becomes the live one. Null if it has no record. */
  deployId: string | null
  signal?: AbortSignal | undefined
}

/** Puts the files over the others, whatever the policy of the project. */
const overlay: ExactChange = { edited: 'ignore', removes: null, exact: null }

/**
 * Creates the function that extracts an archive over a project's target, for an import. It is all or nothing, like a
 * deployment, and waits in the project's queue. It runs no scripts and writes no record, because an import brings its
 * own. If the archive belongs to no recorded deployment, the last known deployment stays the live one, and nobody can go
 * back exactly over this change. Refuses a project whose target is on nodes (409 `project_is_placed`, `not_placed`).
 */
export function createRestore(
  needs: Pick<DeployNeeds, 'store' | 'log' | 'settings' | 'copies'> & {
    turns: TargetTurns
    trees: Pick<Trees, 'read' | 'restored'>
  }
): (request: RestoreRequest) => Promise<Extracted> {
  const { store, turns } = needs

  function placeAgain(
    tx: Transaction,
    { deployId, projectId, beforeFrom }: { deployId: string; projectId: string; beforeFrom: readonly string[] }
  ): void {
    if (findDeployment(tx, deployId)?.projectId !== projectId) return
    placeDeployment(tx, deployId, { again: true })
    setBeforeFrom(tx, deployId, beforeFrom)
  }

  return async ({ projectId, archivePath, deployId, signal }) => {
    const project = findProject(store, projectId)
    if (project !== undefined) {
      refusePlaced(store, project, 'restore the archive of')
      refuseUnplaced(needs, project)
    }
    return turns({ projectId, signal, cannot: 'Cannot restore the archive' }, async turn => {
      const extracted = await turn.extract(archivePath, {
        reserved: reservedPaths(store, projectId),
        ownership: await ownershipOf(needs, turn.project, overlay)
      })
      await store.write(tx => {
        if (deployId === null) noteForeignChange(tx, projectId)
        else placeAgain(tx, { deployId, projectId, beforeFrom: extracted.beforeFrom })
      })
      await needs.trees
        .restored(projectId, { manifestOf: turn.id, deployId })
        .catch(error => needs.log(`Cannot add the restored files to the tree of project ${projectId}`, error))
      await turn.settle()
      return extracted
    })
  }
}
