import { invalid, notFound } from '../base/errors.js'
import { json } from '../http/core/route.js'
import { isInScope } from '../model/access.js'
import { listedLockKinds } from '../model/lock.js'
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
export function lockHandlers({ locks, deployer: { maintenance }, clock }: ApiServices) {
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
    list({ actor, query }) {
      const asked = queryText(query, 'projectId')
      // The deploy token of a project always reads its own locks.
      const projectId = actor.projectId ?? asked
      if (projectId !== undefined) checkProject(actor, projectId, () => notFound('Project', projectId))
      const kind = oneOf(listedLockKinds)(queryText(query, 'kind') ?? 'lock', 'kind')
      const listed = kind === 'maintenance' ? [] : locks.list(projectId)
      const all = kind === 'lock' ? listed : [...listed, ...maintenance.list(projectId)]
      return json(all.filter(each => each.projectId === null || isInScope(actor.projects, each.projectId)))
    },

    lockProject: request => lock(request, param(request, 'id')),
    unlockProject: request => unlock(request, param(request, 'id')),
    lockServer: request => lock(request, null),
    unlockServer: request => unlock(request, null)
  } satisfies Record<string, Handler>
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
