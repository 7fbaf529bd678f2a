import { notFound, Refusal } from '../base/refusal.js'
import { findRights, umaskOf } from '../proc/identity.js'
import type { Transaction } from '../store/database.js'
import { findDeployment, placeDeployment } from '../store/tables/deployments.js'
import { findProject } from '../store/tables/projects.js'
import type { Waiting } from './admission.js'
import { endJournal, extractArchive, extractionLimits } from './extract.js'
import type { Ends } from './ends.js'
import type { Executors } from './executors.js'
import type { Extracted } from './extraction.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import type { Pending } from './pending.js'
import { recordComplete } from './placement.js'
import type { Queue } from './queue.js'
import type { TargetLocks } from './target-locks.js'

export interface RestoreRequest {
  projectId: string
  /** It stays. */
  archivePath: string
  /** The deployment that the archive is of, if it has a record: it is then what is live. */
  deployId: string | null
  signal?: AbortSignal | undefined
}

/**
 * Extracts an archive over a project's target as a deployment would, all or nothing, in the project's turn; without
 * scripts, and without a record: an import brings its own. If the archive is of no deployment that has one, the last
 * deployment that is known stays the live one.
 */
export function createRestore(
  needs: DeployNeeds & {
    files: DeployFiles; executors: Executors; targets: TargetLocks; pending: Pending; queue: Queue<Waiting>; ends: Pick<Ends, 'settle'>; refuseWhenStopping(): void
  }
): (request: RestoreRequest) => Promise<Extracted> {
  const { store, home, ids, settings, executors, targets, pending, queue } = needs

  async function extract(id: string, { projectId, archivePath, deployId, signal }: RestoreRequest): Promise<Extracted> {
    await needs.ends.settle()
    const project = findProject(store, projectId)
    if (project === undefined) throw notFound('Project', projectId)
    const rights = await findRights(project)
    const target = await executors.makeTarget(rights, project.deployPath, { home: home.directory, allowSystemPaths: needs.allowSystemPaths, umask: umaskOf(project) })
    const options = { limits: extractionLimits(settings), isDurable: settings.flag('durable_targets') }
    const note = await pending.note([id])
    const given = signal ?? new AbortController().signal
    try {
      const real = await targets.hold(id, target, { signal: given })
      const onEarlierComplete = (earlier: string): Promise<void> => recordComplete(needs, earlier)
      const job = { ...options, archivePath, target, real, isAtWork: targets.isHeld, onEarlierComplete, rights, umask: umaskOf(project), deployId: id, home }
      const extracted = await extractArchive(executors, { ...job, signal: given })
      if (deployId !== null) await store.write(tx => placeAgain(tx, { deployId, projectId }))
      await endJournal(home, { deployId: id, target })
      return extracted
    } finally {
      targets.release(id)
      await note.removeFiles()
    }
  }

  function placeAgain(tx: Transaction, { deployId, projectId }: { deployId: string; projectId: string }): void {
    if (findDeployment(tx, deployId)?.projectId === projectId) placeDeployment(tx, deployId, { again: true })
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
          reject(new Refusal('unavailable', 'shutting_down', 'The artifact was not restored: the server is shutting down'))
        }
      })
    })
  }
}
