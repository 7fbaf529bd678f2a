import { json } from '../http/core/route.js'
import type { Project } from '../model/project.js'
import type { TokenHolder } from '../model/token-holder.js'
import type { Handler } from './route.js'

/** Dependencies of the handler. */
export interface WhoamiNeeds {
  findProject(id: string): Project | undefined
}

/** Handler of `GET /api/auth/whoami`: the role and project of the token. Commands check a token with it. */
export function whoamiHandlers({ findProject }: WhoamiNeeds) {
  return {
    whoami({ actor }) {
      const holder: TokenHolder = { role: actor.role, name: actor.name, project: summaryOf(actor.projectId) }
      return json(holder)
    }
  } satisfies Record<string, Handler>

  function summaryOf(id: string | null): TokenHolder['project'] {
    const project = id === null ? undefined : findProject(id)
    if (project === undefined) return null
    const { name, env, status, lastDeployAt } = project
    return { id: project.id, name, env, status, lastDeployAt }
  }
}
