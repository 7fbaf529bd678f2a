import { notFound, Refusal } from '../base/refusal.js'
import { findRights, umaskOf } from '../proc/identity.js'
import type { Transaction } from '../store/database.js'
import { findDeployment, placeDeployment, setBeforeFrom } from '../store/tables/deployments.js'
import { findProject, noteForeignChange } from '../store/tables/projects.js'
import { endJournal, extractArchive, extractionLimits } from '../install/unpack/extract.js'
import type { Ends } from './ends.js'
import type { Executors } from '../install/unpack/executors.js'
import type { OpenExtractions } from '../install/unpack/open-extraction.js'
import type { Extracted } from '../install/unpack/extraction.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import { ownershipOf, type ExactChange } from './ownership.js'
import type { Pending } from './pending.js'
import { recordComplete } from './placement.js'
import type { Queue } from './queue.js'
import type { TargetLocks } from './target-locks.js'
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
 * back exactly over this change.
 */
export function createRestore(
  needs: DeployNeeds & {
    files: DeployFiles
    executors: Executors
    targets: TargetLocks
    pending: Pending
    queue: Queue
    ends: Pick<Ends, 'settle'>
    open: OpenExtractions
    trees: Pick<Trees, 'read' | 'restored'>
    refuseWhenStopping(): void
  }
): (request: RestoreRequest) => Promise<Extracted> {
  const { store, home, ids, settings, executors, targets, pending, queue } = needs

  async function extract(id: string, { projectId, archivePath, deployId, signal }: RestoreRequest): Promise<Extracted> {
    await needs.ends.settle()
    const project = findProject(store, projectId)
    if (project === undefined) throw notFound('Project', projectId)
    const rights = await findRights(project)
    const target = await executors.makeTarget(rights, project.deployPath, {
      home: home.directory,
      allowSystemPaths: needs.allowSystemPaths,
      umask: umaskOf(project)
    })
    const options = { limits: extractionLimits(settings), isDurable: settings.flag('durable_targets') }
    const note = await pending.note([id])
    const given = signal ?? new AbortController().signal
    try {
      const real = await targets.hold(id, target, { signal: given })
      const onEarlierComplete = (earlier: string): Promise<void> => recordComplete(needs, earlier)
      const job = {
        ...options,
        archivePath,
        target,
        real,
        isAtWork: targets.isHeld,
        onEarlierComplete,
        open: needs.open,
        rights,
        umask: umaskOf(project),
        deployId: id,
        home
      }
      const ownership = await ownershipOf(needs, project, overlay)
      const extracted = await extractArchive(executors, { ...job, ownership, signal: given })
      await store.write(tx => {
        if (deployId === null) noteForeignChange(tx, projectId)
        else placeAgain(tx, { deployId, projectId, beforeFrom: extracted.beforeFrom })
      })
      await needs.trees
        .restored(projectId, { manifestOf: id, deployId })
        .catch(error => needs.log(`Cannot add the restored files to the tree of project ${projectId}`, error))
      await endJournal(home, { deployId: id, target })
      return extracted
    } finally {
      targets.release(id)
      await note.removeFiles()
    }
  }

  function placeAgain(
    tx: Transaction,
    { deployId, projectId, beforeFrom }: { deployId: string; projectId: string; beforeFrom: readonly string[] }
  ): void {
    if (findDeployment(tx, deployId)?.projectId !== projectId) return
    placeDeployment(tx, deployId, { again: true })
    setBeforeFrom(tx, deployId, beforeFrom)
  }

  return async request => {
    needs.refuseWhenStopping()
    const id = ids.id('dep_')
    return new Promise((resolve, reject) => {
      queue.add({
        key: request.projectId,
        id,
        run: () => extract(id, request).then(resolve, reject),
        async drop() {
          reject(
            new Refusal(
              'unavailable',
              'shutting_down',
              'Cannot restore the archive: the server is shutting down. Try again in a moment'
            )
          )
        }
      })
    })
  }
}
