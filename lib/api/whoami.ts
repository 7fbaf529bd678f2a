import { json } from '../http/route.js'
import type { Project } from '../model/project.js'
import type { TokenHolder } from '../model/token-holder.js'
import type { Handler } from './route.js'

export interface WhoamiNeeds {
  findProject(id: string): Project | undefined
}

/** `GET /api/auth/whoami`: what the token of the request is for. A command asks it before it stores or uses a token. */
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
