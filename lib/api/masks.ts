/*
 * What callers below admin do not see in records. A hidden value is null: deploy tokens of projects, which only admins
 * read, and the texts of scripts, which viewers and deployers read only if their token says so.
 */
import { perObject } from '../base/per-object.js'
import type { Caller } from '../auth/bearer.js'
import { includesRole } from '../model/access.js'
import type { AccessRole } from '../model/access.js'
import type { Project, ShownProject } from '../model/project.js'
import type { RanScript } from '../model/deployment.js'

// Kept with the record: a copy takes as long as the rest of the authorization (bench/api).
const withoutToken = perObject((project: Project): ShownProject => ({ ...project, token: null }))
const withoutScripts = perObject(
  (project: Project): ShownProject => ({ ...project, token: null, preDeployScript: null, postDeployScript: null })
)

/** Returns a project as a caller sees it. */
export function shownProject(project: Project, { token, role, seesScripts }: Caller): ShownProject {
  if (token === undefined || includesRole(role as AccessRole, 'admin')) return project
  return seesScripts ? withoutToken(project) : withoutScripts(project)
}

/** A script of a deployment as a caller sees it. */
export type ShownScript = Omit<RanScript, 'script'> & { script: string | null }

/** Returns a deployment as a caller sees it. */
export function shownDeployment<T extends { scripts: readonly RanScript[] }>(
  deployment: T,
  { seesScripts }: Pick<Caller, 'seesScripts'>
): T | (Omit<T, 'scripts'> & { scripts: ShownScript[] }) {
  if (seesScripts || deployment.scripts.length === 0) return deployment
  return { ...deployment, scripts: deployment.scripts.map(script => ({ ...script, script: null })) }
}
