/*
 * Which project a request concerns. Every row of the table of routes says it. A caller that is limited to projects gets
 * 404 for every other project, as for one that does not exist, so that it cannot find out which ids exist.
 */
import type { Caller } from '../auth/bearer.js'
import { Refusal, notFound } from '../base/errors.js'
import type { Request } from '../http/core/route.js'

/**
 * - `none`: no project; the route is public, or about the caller itself
 * - `server`: the whole server; callers that are limited to projects are refused
 * - `filtered`: the handler limits its answer to the projects of the caller
 * - `given`: the handler reads the project from the query or body, and checks it with `checkProject`
 * - `project`, `deployment`, `logSource`, `rollout`: the parameter of the path is the id of one
 */
export type Scope = 'none' | 'server' | 'filtered' | 'given' | 'project' | 'deployment' | 'logSource' | 'rollout'

/** Finds the project of a record. Undefined: there is no such record. */
export interface ProjectLookup {
  ofDeployment(id: string): string | undefined
  ofLogSource(id: string): string | undefined
  ofRollout(id: string): string | undefined
}

/**
 * Refuses a request that concerns another project than those of its caller. Refuses: 404, 403 `scope_too_narrow`; for
 * the deploy token of a project 403 `other_project`.
 */
export function checkScope(
  scope: Scope,
  { actor, params }: Pick<Request<Caller>, 'actor' | 'params'>,
  lookup: ProjectLookup
): void {
  if (actor.projects === null) return
  const id = params['id'] ?? params['deployId'] ?? params['sourceId'] ?? params['rolloutId'] ?? ''
  if (scope === 'server') throw scopeTooNarrow(actor)
  if (scope === 'project') checkProject(actor, id, () => notFound('Project', id))
  else if (scope === 'deployment') checkFound(actor, lookup.ofDeployment(id), () => notFound('Deployment', id))
  else if (scope === 'logSource') checkFound(actor, lookup.ofLogSource(id), () => notFound('Log source', id))
  else if (scope === 'rollout') checkFound(actor, lookup.ofRollout(id), () => notFound('Rollout', id))
}

/**
 * A missing record is refused here as well: a handler may find a fault of the body first, and a limited caller would see
 * the difference. For a deploy token the handler answers.
 */
function checkFound(actor: Caller, projectId: string | undefined, unknown: () => Refusal): void {
  if (projectId !== undefined) checkProject(actor, projectId, unknown)
  else if (actor.role !== 'project') throw unknown()
}

/** Refuses a project that is not one of the caller's: with `unknown`, or 403 `other_project` for a deploy token. */
export function checkProject(
  actor: Pick<Caller, 'projects' | 'role'>,
  projectId: string,
  unknown: () => Refusal
): void {
  if (actor.projects === null || actor.projects.includes(projectId)) return
  throw actor.role === 'project' ? otherProject() : unknown()
}

/** Returns the 403 for the deploy token of another project. */
export function otherProject(field?: string): Refusal {
  const details = field === undefined ? {} : { field }
  return new Refusal('forbidden', 'other_project', 'This deploy token belongs to another project', details)
}

function scopeTooNarrow({ token }: Caller): Refusal {
  const sentence = `Permission denied: this concerns the whole server, and the token "${token?.name}" is limited to projects`
  return new Refusal('forbidden', 'scope_too_narrow', sentence)
}
