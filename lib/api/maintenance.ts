import { flag, line, nullable, optional, readFields } from '../base/fields.js'
import type { Deployer } from '../deploy/deployer.js'
import { json } from '../http/core/route.js'
import type { Project } from '../model/project.js'
import { tighten } from '../model/tighten.js'
import { maxLockReasonLength } from '../shared/lock-limits.js'
import { param, type Handler } from './route.js'

/** Fields of `PUT /api/projects/:id/maintenance`. */
export const maintenanceFields = {
  /** Whether the project is to be in maintenance. Ending one that is off changes nothing. */
  on: flag,
  /** Why. The page of svc shows it to visitors. */
  reason: optional(nullable(line({ max: maxLockReasonLength, trim: true }))),
  /** Whether to replace a file of somebody else at that path, or to remove the file although it was changed. */
  force: optional(flag)
}

/** Dependencies of the handlers. */
export interface MaintenanceApiNeeds {
  maintenance: Deployer['maintenance']
  findProject(id: string): Project | undefined
}

/** Handlers of the maintenance of a project. A deploy token has access to its own project only. */
export function maintenanceHandlers({ maintenance, findProject }: MaintenanceApiNeeds) {
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
