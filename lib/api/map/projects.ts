import type { Label, RecentScripts, ShownProject } from '../../model/project.js'
import type {
  bulkFields,
  labelFields,
  newLabelFields,
  pinFields,
  variablesChangeFields,
  variablesFields
} from '../projects.js'
import type { FileContent, FileEntry } from '../../model/manifest.js'
import type { IfUpdated, Ran, Switch, Traced } from './common.js'
import type { ComponentSearch } from '../../model/sbom.js'
import type { Family } from '../../model/family.js'
import type { ProjectOverview } from '../../model/health.js'
import type { Variable } from '../../model/variable.js'
import type { newProjectFields, projectFields } from '../../model/project-fields.js'
import type { ListedLock, ListedMaintenance, Maintenance, Marks } from '../../model/marks.js'
import type { lockFields, maintenanceFields, unlockFields } from '../locks.js'
import type { DriftReport, TreeSummary } from '../../model/plan.js'
import type { repairFields } from '../deployments.js'

/** The file of a target that is asked for. */
interface FileQuery {
  /** Path relative to the target, with "/" between segments. */
  path: string
}

/** Further answers of a file that is sent in ranges. */
interface InRanges {
  /** A range of the file. */
  206: { media: 'application/octet-stream' }
  /** Not modified: the client already has the current file. */
  304: null
  /** The range is outside the file. */
  416: null
}

/** Projects, their variables and files, categories and tags. */
export interface ProjectRoutes {
  /** List projects. */
  'GET /api/projects': {
    query: {
      /** Ids of tags, separated by commas. Lists only projects that have all of them. */
      tagIds?: string
    }
    /** The projects. */
    answer: ShownProject[]
  }
  /** Create a project. @errors path_taken name_taken not_found */
  'POST /api/projects': {
    body: typeof newProjectFields
    /** The project, with its deploy token. */
    answer: {
      success: true
      project: ShownProject
      /** Present if fields of the request were ignored: one sentence each. */
      warnings?: string[]
    }
  }
  /** Change or delete several projects. @errors not_found */
  'POST /api/projects/bulk': {
    body: typeof bulkFields
    /** The number of changed projects, and the failures. */
    answer: { success: true; done: number; failed: Array<{ id: string; error: string }> }
  }
  /** Get a project. @errors not_found */
  'GET /api/projects/:id': {
    /** The project. */
    answer: ShownProject
  }
  /**
   * Change a project.
   *
   * Fields that are absent keep their values. The nodes of a project keep the directories in which it was placed.
   * @errors not_found changed_since path_taken name_taken deployment_running maintenance_on
   */
  'PUT /api/projects/:id': {
    headers: IfUpdated
    body: typeof projectFields
    /** The project. */
    answer: {
      success: true
      project: ShownProject
      /** Present if fields of the request were ignored, or nodes keep another directory: one sentence each. */
      warnings?: string[]
    }
  }
  /**
   * Delete a project, its deployments and its archives.
   *
   * The files in the target directory are not deleted.
   * @errors not_found deployment_running promotion_source
   */
  'DELETE /api/projects/:id': {
    /** The project was deleted. */
    answer: { success: true; message: string }
  }
  /**
   * Replace the deploy token of a project.
   *
   * The old token stops working immediately.
   * @errors not_found
   */
  'POST /api/projects/:id/token': {
    /** The new token. */
    answer: { success: true; token: string }
  }
  /** Pin a project to the overview or unpin it. @errors not_found */
  'PUT /api/projects/:id/pin': {
    body: typeof pinFields
    /** The project. */
    answer: { success: true; project: ShownProject }
  }
  /** Get the live deployment, the current failure and the last deployments of a project. @errors not_found */
  'GET /api/projects/:id/overview': {
    /** The overview. */
    answer: ProjectOverview
  }
  /**
   * List the families of projects: those of one application in several environments, with the release in place in each.
   *
   * Projects are of one family if they have a common tag `app:<name>`, if one takes its releases from the other, or if
   * their names are the same without the word of an environment. A project that is of no family is not listed.
   */
  'GET /api/families': {
    /** The families, by name. */
    answer: { success: true; families: Family[] }
  }
  /**
   * Find where a component is in place.
   *
   * Searches the lists of components (SBOM) that clients sent with the releases that are in place now, on the server and on
   * nodes. A deploy token searches its own project.
   * @errors invalid_field search_busy
   */
  'GET /api/components': {
    query: {
      /** A part of the name or of the package URL, at most 200 characters. */
      name: string
      /** The version, or its beginning up to a dot. Default: any. */
      version?: string
    }
    /** The components, at most 1,000. */
    answer: ComponentSearch
  }
  /** List the variables of a project. @errors not_found */
  'GET /api/projects/:id/variables': {
    /** The variables. The value of a secret variable is null. */
    answer: { success: true; variables: Variable[] }
  }
  /**
   * Replace the variables of a project.
   *
   * Variables that are not listed are removed. If `value` or `secret` is absent or null, the stored one is kept.
   * @errors not_found variables_key
   */
  'PUT /api/projects/:id/variables': {
    body: typeof variablesFields
    /** The variables. The value of a secret variable is null. */
    answer: { success: true; variables: Variable[] }
  }
  /**
   * Set and unset variables of a project.
   *
   * Variables that are not named keep their values. `dotenv` is the text of a .env file. With `secret: true`, all
   * variables of `dotenv` are secret.
   * @errors not_found variables_key
   */
  'PATCH /api/projects/:id/variables': {
    body: typeof variablesChangeFields
    /** The variables. The value of a secret variable is null. */
    answer: { success: true; variables: Variable[] }
  }
  /** Get the scripts of the last successful deployment that ran scripts. @errors not_found */
  'GET /api/projects/:id/recent-scripts': {
    /** The scripts. */
    answer: RecentScripts
  }
  /**
   * List a directory of the target.
   * @errors not_found not_a_directory outside_target invalid_path not_readable helper_failed invalid_field
   */
  'GET /api/projects/:id/files': {
    query: {
      /** Path relative to the target, with "/" between segments. */
      path?: string
    }
    /** The entries, directories first. */
    answer: FileEntry[]
  }
  /**
   * Preview a file of the target.
   * @errors not_found not_a_file outside_target denied_path invalid_path not_readable changed_meanwhile helper_failed
   * invalid_field
   */
  'GET /api/projects/:id/file': {
    query: FileQuery
    /** The text of the file, or the size of a binary file. */
    answer: FileContent
  }
  /**
   * Download a file of the target.
   *
   * Supports range requests and conditional requests (RFC 9110 §13 and §14).
   * @errors not_found not_a_file outside_target denied_path invalid_path not_readable changed_meanwhile helper_failed
   * invalid_field
   */
  'GET /api/projects/:id/download': {
    query: FileQuery
    /** The file. */
    media: 'application/octet-stream'
    also: InRanges
  }
  /** List categories. */
  'GET /api/categories': {
    /** The categories. */
    answer: Label[]
  }
  /** Create a category. @errors name_taken */
  'POST /api/categories': {
    body: typeof newLabelFields
    /** The category. */
    answer: { success: true; category: Label }
  }
  /** Change a category. @errors not_found name_taken changed_since */
  'PUT /api/categories/:id': {
    headers: IfUpdated
    body: typeof labelFields
    /** The category. */
    answer: { success: true; category: Label }
  }
  /**
   * Delete a category.
   *
   * Its projects move to the default category.
   * @errors not_found
   */
  'DELETE /api/categories/:id': {
    /** The number of projects that had it. */
    answer: { success: true; message: string; movedProjects: number }
  }
  /** List tags. */
  'GET /api/tags': {
    /** The tags. */
    answer: Label[]
  }
  /** Create a tag. @errors name_taken */
  'POST /api/tags': {
    body: typeof newLabelFields
    /** The tag. */
    answer: { success: true; tag: Label }
  }
  /** Change a tag. @errors not_found name_taken changed_since */
  'PUT /api/tags/:id': {
    headers: IfUpdated
    body: typeof labelFields
    /** The tag. */
    answer: { success: true; tag: Label }
  }
  /**
   * Delete a tag.
   *
   * Its projects are not deleted, but lose the tag.
   * @errors not_found
   */
  'DELETE /api/tags/:id': {
    /** The number of projects that had it. */
    answer: { success: true; message: string; detachedProjects: number }
  }
}

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

/** The files that svc put into a target. */
export interface TreeRoutes {
  /** Describe the files that svc put into the target. @errors invalid_field not_found other_project torn_manifest */
  'GET /api/projects/:id/tree': {
    query: {
      /** Whether to search for edited files if the last search is older than an hour. */
      drift?: Switch
    }
    /** The number of files, and what is known of their state. */
    answer: TreeSummary
  }
  /**
   * Verify the files that svc put into the target.
   *
   * Reads every file and compares it with what svc put there. Nothing is changed. The response has one JSON object per
   * line: `start`, `progress`, a `finding` for each entry that differs, and `end`. The `state` of a finding is
   * `changed` (other contents, or not readable), `missing`, `other_type`, or `mode` (only other permission bits).
   * `isOutdated` says that a deployment was in progress, so that findings may be its files. A response without `end` is
   * incomplete.
   * @errors invalid_field not_found other_project torn_manifest verify_busy target_unusable changed_meanwhile helper_failed
   */
  'GET /api/projects/:id/verify': {
    query: {
      /** Whether to add a line `file` with the SHA-256 that svc put there, for each regular file. */
      sums?: Switch
    }
    /**
     * The findings while the files are read.
     * @example
     * "{\"event\":\"start\",\"files\":5049,\"baseline\":\"owned\"}\n{\"event\":\"finding\",\"path\":\"config.js\",\"state\":\"changed\",\"since\":\"dep_1a2b3c4d5e6f7a8b\"}\n{\"event\":\"progress\",\"done\":1000,\"files\":5049}\n{\"event\":\"end\",\"files\":5049,\"ok\":5048,\"changed\":1,\"missing\":0,\"otherType\":0,\"mode\":0,\"isOutdated\":false}\n"
     */
    media: 'application/x-ndjson'
  }
  /**
   * Put back the files that are not as deployed.
   *
   * Verifies the files, and deploys those that differ from the archives that contain them. Edited files that are
   * replaced are kept, and an undo brings them back. A directory in the place of a file makes the deployment fail. With
   * `Accept: application/x-ndjson`, the response streams the output as an upload does. Otherwise it is sent when the
   * deployment has finished.
   * @errors *signed invalid_field not_found nothing_to_repair no_content verify_busy target_unusable changed_meanwhile
   * helper_failed locked queue_full disk_full shutting_down
   */
  'POST /api/projects/:id/repair': {
    headers: Traced
    body?: typeof repairFields
    /**
     * The result of the deployment.
     * @header X-Svc-Deploy-Id The id of the deployment. It is sent as soon as the deployment is recorded.
     * @header X-Svc-Deploy-Url The URL of the deployment's page, if the server knows its public URL.
     */
    answer: Ran
  }
  /**
   * List the files that were edited on the server.
   *
   * Compares the files that svc put into the target with those that are there now. Nothing is changed. A file whose
   * size, modification time and inode are those that svc recorded is not read, unless `full` is given.
   * @errors invalid_field not_found other_project torn_manifest plan_busy changed_meanwhile helper_failed
   */
  'GET /api/projects/:id/drift': {
    query: {
      /** Whether to read every file. Default: false. */
      full?: Switch
    }
    /** The edited and removed files. */
    answer: DriftReport
  }
  /**
   * Download a file that was edited on the server.
   *
   * Sends only regular files that svc put into the target and that were edited since. Files that may contain secrets
   * are refused.
   * @errors invalid_field not_found other_project not_a_file outside_target denied_path invalid_path not_readable
   * changed_meanwhile helper_failed
   */
  'GET /api/projects/:id/drift/file': {
    query: FileQuery
    /** The file. */
    media: 'application/octet-stream'
    also: InRanges
  }
}
