import type { DriftReport, TreeSummary } from '../../model/plan.js'
import type { Ran, Switch, Traced } from './common.js'
import type { repairFields } from '../deployments.js'

/** The files that svc put into a target. */
export interface TreeRoutes {
  /** Describe the files that svc put into the target. @errors invalid_field not_found other_project */
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
   * @errors invalid_field not_found other_project verify_busy target_unusable changed_meanwhile helper_failed
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
   * @errors invalid_field not_found other_project plan_busy changed_meanwhile helper_failed
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
}
