import { notFound, Refusal } from '../base/refusal.js'
import { findRights } from '../proc/identity.js'
import { findProject } from '../store/tables/projects.js'
import type { Waiting } from './admission.js'
import { extractArchive, extractionLimits } from './extract.js'
import type { Executors } from './executors.js'
import type { Extracted } from './extraction.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'
import type { Queue } from './queue.js'
import type { TargetLocks } from './target-locks.js'

export interface RestoreRequest {
  projectId: string
  /** It stays. */
  archivePath: string
  signal?: AbortSignal | undefined
}

/**
 * Extracts an archive over a project's target as a deployment would, all or nothing, in the project's turn; without
 * scripts, and without a record: an import brings its own.
 */
export function createRestore(
  needs: DeployNeeds & { files: DeployFiles; executors: Executors; targets: TargetLocks; queue: Queue<Waiting>; refuseWhenStopping(): void }
): (request: RestoreRequest) => Promise<Extracted> {
  const { store, home, ids, settings, files, executors, targets, queue } = needs

  async function extract(id: string, { projectId, archivePath, signal }: RestoreRequest): Promise<Extracted> {
    const project = findProject(store, projectId)
    if (project === undefined) throw notFound('Project', projectId)
    const rights = await findRights(project)
    const target = await executors.makeTarget(rights, project.deployPath, { home: home.directory, allowSystemPaths: needs.allowSystemPaths })
    const given = signal ?? new AbortController().signal
    try {
      const real = await targets.hold(id, target, { signal: given })
      const job = { archivePath, target, real, isAtWork: targets.isHeld, rights, deployId: id, home }
      return await extractArchive(executors, { ...job, limits: extractionLimits(settings), signal: given })
    } finally {
      targets.release(id)
      await files.remove(id)
    }
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
