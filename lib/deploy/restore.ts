import type { Transaction } from '../store/database.js'
import { findDeployment, placeDeployment } from '../store/tables/deployments.js'
import type { Extracted } from '../install/unpack/extraction.js'
import { reservedPaths } from './maintenance.js'
import type { DeployNeeds } from './needs.js'
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

/**
 * Creates the function that extracts an archive over a project's target, for an import. It is all or nothing, like a
 * deployment, and waits in the project's queue. It runs no scripts and writes no record, because an import brings its
 * own. If the archive belongs to no recorded deployment, the last known deployment stays the live one.
 */
export function createRestore(
  needs: Pick<DeployNeeds, 'store' | 'log'> & { turns: TargetTurns; trees: Pick<Trees, 'restored'> }
): (request: RestoreRequest) => Promise<Extracted> {
  const { store, turns } = needs

  function placeAgain(tx: Transaction, { deployId, projectId }: { deployId: string; projectId: string }): void {
    if (findDeployment(tx, deployId)?.projectId === projectId) placeDeployment(tx, deployId, { again: true })
  }

  return ({ projectId, archivePath, deployId, signal }) =>
    turns({ projectId, signal, cannot: 'Cannot restore the archive' }, async turn => {
      const extracted = await turn.extract(archivePath, reservedPaths(store, projectId))
      if (deployId !== null) await store.write(tx => placeAgain(tx, { deployId, projectId }))
      await needs.trees
        .restored(projectId, { manifestOf: turn.id, deployId })
        .catch(error => needs.log(`Cannot add the restored files to the tree of project ${projectId}`, error))
      await turn.settle()
      return extracted
    })
}
