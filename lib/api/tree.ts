import { notFound } from '../base/errors.js'
import type { Deployer } from '../deploy/deployer.js'
import { json } from '../http/core/route.js'
import { encodeLines, ndjson } from '../http/streams.js'
import type { Project } from '../model/project.js'
import { queryText, switchText } from './query.js'
import { param, type ApiRequest, type Handler } from './route.js'

/** What a verification holds while its client does not read: the findings of a slice. */
const verifiedBytes = 512 * 1024

/** Dependencies of the handlers about the files that svc put into a target. */
export interface TreeApiNeeds {
  deployer: Pick<Deployer, 'treeSummary' | 'verify'>
  findProject(id: string): Project | undefined
}

/** Handlers about the files that svc put into the target of a project. */
export function treeHandlers({ deployer, findProject }: TreeApiNeeds) {
  function projectIdOf(request: ApiRequest): string {
    const projectId = param(request, 'id')
    if (findProject(projectId) === undefined) throw notFound('Project', projectId)
    return projectId
  }

  return {
    /** `GET /api/projects/:id/tree?drift=`: the number of files, and what is known of their state. */
    summary: async request => {
      const projectId = projectIdOf(request)
      const drift = switchText(queryText(request.query, 'drift'), 'drift') ?? false
      return json(await deployer.treeSummary({ projectId, drift, signal: request.signal }))
    },

    /** `GET /api/projects/:id/verify?sums=`: compares every file, one JSON object per line. */
    verify: request => {
      const projectId = projectIdOf(request)
      const sums = switchText(queryText(request.query, 'sums'), 'sums') ?? false
      // A refusal before the first line is an error response.
      return ndjson(
        async (write, signal) => {
          for await (const events of deployer.verify({ projectId, sums, signal })) await write(encodeLines(events))
        },
        { heldBytes: verifiedBytes }
      )
    }
  } satisfies Record<string, Handler>
}
