import type { Deployer } from '../deploy/deployer.js'
import { Refusal } from '../base/refusal.js'
import { json } from '../http/core/route.js'
import { queryText, switchText } from './query.js'
import { param, type Handler } from './route.js'

/** Dependencies of the drift report. */
export interface DriftApiNeeds {
  deployer: Pick<Deployer, 'drift'>
}

/**
 * Handler of `GET /api/projects/:id/drift?full=`: lists the files that svc put into the target and that were edited or
 * removed since. The token of a project gets 403 `other_project` for every other project.
 */
export function driftHandlers({ deployer }: DriftApiNeeds) {
  return {
    async drift(request) {
      const projectId = param(request, 'id')
      const { actor, query, signal } = request
      if (actor.role === 'project' && actor.projectId !== projectId) {
        throw new Refusal('forbidden', 'other_project', 'This deploy token belongs to another project')
      }
      const isFull = switchText(queryText(query, 'full'), 'full') ?? false
      return json(await deployer.drift({ projectId, isFull, signal }))
    }
  } satisfies Record<string, Handler>
}
