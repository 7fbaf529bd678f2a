import type { ListedLock, ListedMaintenance, Maintenance, Marks } from '../../model/marks.js'
import type { lockFields, maintenanceFields, unlockFields } from '../locks.js'

/** Locks of projects and of the whole server, and the maintenance of projects. */
export interface LockRoutes {
  /**
   * List the locks in force.
   *
   * A deploy token gets the locks that refuse its own deployments.
   * @errors invalid_field
   */
  'GET /api/locks': {
    query: {
      /** Lists only the locks that refuse deployments of this project. */
      projectId?: string
      /** Lists locks, projects in maintenance, or both. Default: `lock`. */
      kind?: 'lock' | 'maintenance' | 'all'
    }
    /** The locks, first that of the server, then the projects in maintenance. */
    answer: Array<ListedLock | ListedMaintenance>
  }
  /**
   * List what waits for somebody, locks, and failures in the background.
   *
   * A deploy token gets those of its own project.
   * @errors not_found
   */
  'GET /api/marks': {
    query: {
      /** Lists only those of this project. */
      projectId?: string
    }
    /** What lists of projects show beside their status. */
    answer: Marks
  }
  /**
   * Lock a project.
   *
   * Refuses uploads and rollbacks of the project until the lock expires or is removed. A queued deployment fails when
   * its turn comes; a running one continues.
   * @errors locked not_found other_project
   */
  'PUT /api/projects/:id/lock': {
    body: typeof lockFields
    /** The lock. */
    answer: { success: true; lock: ListedLock }
  }
  /** Unlock a project. @errors not_found other_project other_owner */
  'DELETE /api/projects/:id/lock': {
    body?: typeof unlockFields
    /** The removed lock. */
    answer: { success: true; message: string; lock: ListedLock }
  }
  /** Get the maintenance of a project. @errors not_found other_project */
  'GET /api/projects/:id/maintenance': {
    /** The maintenance; null if it is off. */
    answer: { success: true; maintenance: Maintenance | null }
  }
  /**
   * Begin or end the maintenance of a project.
   *
   * Places the file of the policy `maintenanceFile` in the target, or removes it. Answers when that is done. Waits up
   * to 30 seconds for deployments of the project. Deployments are not refused during a maintenance.
   * @errors deploy_token_may_not not_found other_project other_owner maintenance_on maintenance_changed
   * maintenance_file_exists maintenance_page group_unusable deployment_running target_missing
   */
  'PUT /api/projects/:id/maintenance': {
    body: typeof maintenanceFields
    /** The maintenance after the change; null if it is off. */
    answer: { success: true; maintenance: Maintenance | null }
  }
  /**
   * Lock the whole server.
   *
   * Refuses uploads and rollbacks of every project, as the lock of a project does.
   * @errors locked
   */
  'PUT /api/lock': {
    body: typeof lockFields
    /** The lock. */
    answer: { success: true; lock: ListedLock }
  }
  /** Unlock the whole server. @errors not_found other_project other_owner */
  'DELETE /api/lock': {
    body?: typeof unlockFields
    /** The removed lock. */
    answer: { success: true; message: string; lock: ListedLock }
  }
}
