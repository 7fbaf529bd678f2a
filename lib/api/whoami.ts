import { json } from '../http/core/route.js'
import type { Project } from '../model/project.js'
import type { TokenHolder } from '../model/token-holder.js'
import type { Handler } from './route.js'

/** Dependencies of the handler. */
export interface WhoamiNeeds {
  findProject(id: string): Project | undefined
  /** Returns when a named token expires. */
  expiryOf(tokenId: string): string
}

/** Handler of `GET /api/auth/whoami`: the role and project of the token. Commands check a token with it. */
export function whoamiHandlers({ findProject, expiryOf }: WhoamiNeeds) {
  return {
    whoami({ actor }) {
      const { role, name, token } = actor
      const projects = token === undefined || actor.projects === null ? null : actor.projects.flatMap(shortOf)
      const named = token === undefined ? null : { ...token, expiresAt: expiryOf(token.id) }
      const holder: TokenHolder = { role, name, project: summaryOf(actor.projectId), token: named, projects }
      return json(holder)
    }
  } satisfies Record<string, Handler>

  function shortOf(id: string): Array<Pick<Project, 'id' | 'name'>> {
    const project = findProject(id)
    return project === undefined ? [] : [{ id, name: project.name }]
  }

  function summaryOf(id: string | null): TokenHolder['project'] {
    const project = id === null ? undefined : findProject(id)
    if (project === undefined) return null
    const { name, env, status, lastDeployAt } = project
    return { id: project.id, name, env, status, lastDeployAt }
  }
}
