import { notFound, Refusal } from '../base/refusal.js'
import { findRights, umaskOf } from '../proc/identity.js'
import type { Transaction } from '../store/database.js'
import { noteForeignChange, setBeforeFrom, wayBackOf } from '../store/tables/placements.js'
import { findDeployment, placeDeployment, updateDeployment } from '../store/tables/deployments.js'
import { findProject } from '../store/tables/projects.js'
import { endJournal, extractArchive, extractionLimits } from '../install/unpack/extract.js'
import type { Ends } from './ends.js'
import type { Executors } from '../install/unpack/executors.js'
import type { OpenExtractions } from '../install/unpack/open-extraction.js'
import type { Extracted } from '../install/unpack/extraction.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import type { Pending } from './pending.js'
import { ownershipOf } from './ownership.js'
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

/**
 * Creates the function that extracts an archive over a project's target, for an import. It is all or nothing, like a
 * deployment, and waits in the project's queue. It runs no scripts and writes no record, because an import brings its
 * own. If the archive belongs to no recorded deployment, the last known deployment stays the live one.
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
    const taken = { exact: null, removes: null, edited: 'ignore' } as const
    const options = { limits: extractionLimits(settings), isDurable: settings.flag('durable_targets') }
    const note = await pending.note([id])
    const given = signal ?? new AbortController().signal
    try {
      const real = await targets.hold(id, target, { signal: given })
      const onEarlierComplete = (earlier: string): Promise<void> => recordComplete(needs, earlier)
      const ownership = await ownershipOf(needs, project, taken)
      const job = {
        ownership,
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
      const extracted = await extractArchive(executors, { ...job, signal: given })
      const isRecorded = await store.write(tx => place(tx, { deployId, projectId }, extracted))
      await needs.trees
        .restored(projectId, { manifestOf: id, deployId: isRecorded ? deployId : null })
        .catch(error => needs.log(`Cannot add the restored files to the tree of project ${projectId}`, error))
      await endJournal(home, { deployId: id, target })
      return extracted
    } finally {
      targets.release(id)
      await note.removeFiles()
    }
  }

  /** Records what is in the target now. Returns false if it belongs to no recorded deployment. */
  function place(
    tx: Transaction,
    { deployId, projectId }: Pick<RestoreRequest, 'deployId' | 'projectId'>,
    extracted: Extracted
  ): boolean {
    if (deployId === null || findDeployment(tx, deployId)?.projectId !== projectId) {
      noteForeignChange(tx, projectId)
      return false
    }
    placeDeployment(tx, deployId, { again: true })
    updateDeployment(tx, deployId, { fileCount: extracted.fileCount })
    setBeforeFrom(tx, deployId, wayBackOf(deployId, extracted))
    return true
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
