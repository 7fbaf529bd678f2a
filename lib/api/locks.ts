import { invalid, notFound } from '../base/errors.js'
import { json } from '../http/core/route.js'
import type { Caller } from '../access/bearer.js'
import { isInScope } from '../model/access.js'
import { listedLockKinds, type Marks } from '../model/marks.js'
import { defaultLockSeconds, maxLockReasonLength, maxLockSeconds, minLockSeconds } from '../base/shared/api.js'
import { flag, integer, line, nullable, oneOf, optional, readFields } from '../base/fields.js'
import { tighten } from '../model/policy-keys.js'
import { type ApiRequest, checkProject, type Handler, optionalBody, param, queryText } from './route.js'
import type { ApiServices } from './services.js'

const reason = line({ min: 1, max: maxLockReasonLength, trim: true })

/** Fields of `PUT /api/projects/:id/lock` and `PUT /api/lock`. */
export const lockFields = {
  /** Why deployments are refused. Everyone whose deployment is refused reads it. */
  reason,
  /** Seconds until the lock expires. Default: one day. */
  seconds: optional(integer(minLockSeconds, maxLockSeconds)),
  /** When the lock expires, instead of `seconds`: an instant with its time zone, within 30 days. */
  expiresAt: optional(line({ max: 40 })),
  /** Whether to replace the reason and the end of your own lock. */
  renew: optional(flag)
}
/** Fields of `DELETE /api/projects/:id/lock` and `DELETE /api/lock`. */
export const unlockFields = {
  /** Why you remove the lock of another owner. Not with a deploy token. */
  takeOver: optional(reason)
}

/** Handlers of locks. A deploy token reads, places and removes only those of its own project. */
export function lockHandlers({ deployer: { locks, maintenance }, clock, readMarks }: ApiServices) {
  /** Returns the locks in force, and the projects in maintenance, that the caller may see. */
  function listed({ actor, query }: Pick<ApiRequest, 'actor' | 'query'>, kind: (typeof listedLockKinds)[number]) {
    const projectId = ownOrAsked(actor, query)
    const found = kind === 'maintenance' ? [] : locks.list(projectId)
    const all = kind === 'lock' ? found : [...found, ...maintenance.list(projectId)]
    return all.filter(each => each.projectId === null || isInScope(actor.projects, each.projectId))
  }

  async function lock(request: ApiRequest, projectId: string | null) {
    const { reason, renew = false, ...until } = readFields(await request.json(), lockFields)
    const seconds = secondsOf(until, clock.now())
    const { actor } = request
    return json({ success: true, lock: await locks.lock({ projectId, kind: 'lock', reason, seconds, renew, actor }) })
  }

  async function unlock(request: ApiRequest, projectId: string | null) {
    const { takeOver = null } = readFields(await optionalBody(request), unlockFields)
    const { actor } = request
    const mayTakeOver = actor.role !== 'project'
    const lock = await locks.unlock({ projectId, kind: 'lock', actor, mayTakeOver, takeOver })
    return json({ success: true, message: 'The lock was removed', lock })
  }

  return {
    list(request) {
      const kind = oneOf(listedLockKinds)(queryText(request.query, 'kind') ?? 'lock', 'kind')
      return json(listed(request, kind))
    },

    marks(request) {
      const projectId = ownOrAsked(request.actor, request.query)
      const marks = readMarks(projectId === undefined ? request.actor.projects : [projectId])
      return json({ ...marks, locks: listed(request, 'all') } satisfies Marks)
    },

    lockProject: request => lock(request, param(request, 'id')),
    unlockProject: request => unlock(request, param(request, 'id')),
    lockServer: request => lock(request, null),
    unlockServer: request => unlock(request, null)
  } satisfies Record<string, Handler>
}

/** Returns the project that a list is limited to. The deploy token of a project always reads its own. */
function ownOrAsked(actor: Caller, query: URLSearchParams): string | undefined {
  const projectId = actor.projectId ?? queryText(query, 'projectId')
  if (projectId !== undefined) checkProject(actor, projectId, () => notFound('Project', projectId))
  return projectId
}

/** Returns the seconds until the lock expires, from `seconds` or `expiresAt`. */
function secondsOf(
  { seconds, expiresAt }: { seconds: number | undefined; expiresAt: string | undefined },
  nowMs: number
): number {
  if (expiresAt === undefined) return seconds ?? defaultLockSeconds
  if (seconds !== undefined) throw invalid('expiresAt', 'Give "seconds" or "expiresAt", not both')
  const atMs = isInstant.test(expiresAt) ? Date.parse(expiresAt) : Number.NaN
  if (Number.isNaN(atMs)) {
    throw invalid('expiresAt', `"expiresAt" is "${expiresAt}": expected an instant such as 2026-01-31T18:00:00Z`)
  }
  const given = Math.ceil((atMs - nowMs) / 1000)
  if (given >= minLockSeconds && given <= maxLockSeconds) return given
  const range = `between ${minLockSeconds} seconds and ${maxLockSeconds / (24 * 60 * 60)} days from now`
  throw invalid('expiresAt', `"expiresAt" is "${expiresAt}": must be ${range}`)
}

/** A date with time and time zone. Without a zone the server's own zone would apply, which the caller does not know. */
const isInstant = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/

/** Fields of `PUT /api/projects/:id/maintenance`. */
export const maintenanceFields = {
  /** Whether the project is to be in maintenance. Ending one that is off changes nothing. */
  on: flag,
  /** Why. The page of svc shows it to visitors. */
  reason: optional(nullable(line({ max: maxLockReasonLength, trim: true }))),
  /** Whether to replace a file of somebody else at that path, or to remove the file although it was changed. */
  force: optional(flag)
}

/** Handlers of the maintenance of a project. A deploy token has access to its own project only. */
export function maintenanceHandlers({ deployer: { maintenance }, findProject }: ApiServices) {
  return {
    get: async request => json({ success: true, maintenance: maintenance.of(param(request, 'id')) }),

    /** Answers when the file is placed or removed. */
    set: async request => {
      const projectId = param(request, 'id')
      const project = findProject(projectId)
      const { on, reason, force = false } = readFields(await request.json(), maintenanceFields)
      const { actor } = request
      if (project !== undefined) tighten(project, { forceMaintenance: force }, actor)
      const mayEndOthers = actor.role !== 'project'
      if (on) await maintenance.on({ projectId, actor, force, reason: reason || null })
      else await maintenance.off({ projectId, actor, force, mayEndOthers })
      return json({ success: true, maintenance: maintenance.of(projectId) })
    }
  } satisfies Record<string, Handler>
}
