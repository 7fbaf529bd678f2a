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
import type { IfUpdated } from './common.js'
import type { ComponentSearch } from '../../model/sbom.js'
import type { Family } from '../../model/family.js'
import type { ProjectOverview } from '../../model/health.js'
import type { Variable } from '../../model/variable.js'
import type { newProjectFields, projectFields } from '../../model/project-fields.js'

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
   * Fields that are absent keep their values.
   * @errors not_found changed_since path_taken name_taken deployment_running maintenance_on
   */
  'PUT /api/projects/:id': {
    headers: IfUpdated
    body: typeof projectFields
    /** The project. */
    answer: {
      success: true
      project: ShownProject
      /** Present if fields of the request were ignored: one sentence each. */
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
    query: {
      /** Path relative to the target, with "/" between segments. */
      path: string
    }
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
    query: {
      /** Path relative to the target, with "/" between segments. */
      path: string
    }
    /** The file. */
    media: 'application/octet-stream'
    also: {
      /** A range of the file. */
      206: { media: 'application/octet-stream' }
      /** Not modified: the client already has the current file. */
      304: null
      /** The range is outside the file. */
      416: null
    }
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
