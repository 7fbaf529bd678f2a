import type { Changes, ManifestFile } from '../../model/manifest.js'
import type { Continued, Ran, Switch, Traced } from './common.js'
import type { DeploymentAnswer } from '../../model/deployment.js'
import type { RollbackPlan } from '../../model/plan.js'
import type { UnfinishedTarget } from '../../model/health.js'
import type { AttestationFile } from '../../deploy/attestations.js'
import type { UploadPermit } from '../../model/access.js'
import type {
  approveFields,
  markFields,
  promoteFields,
  rejectFields,
  rollbackFields,
  undoFields,
  receiptForms
} from '../deployments.js'
import type { sumsFields } from '../plan.js'

/** A deployment that was cancelled. */
export interface Cancelled extends Marked {
  message: string
}

/** A deployment that was changed. */
export interface Marked {
  success: true
  deployment: DeploymentAnswer
}

/** A kept release that a client knows. */
interface ReleaseQuery {
  /** The project of the release. */
  projectId: string
  /** The release, as `GET /api/deploy/check` names it. */
  deployId: string
}

/** How the output of a deployment is written. */
interface Timed {
  /** Whether to begin each line with its time. Default: false. */
  timestamps?: Switch
}

/** Deployments, their records and their output. */
export interface DeploymentRoutes {
  /**
   * Deploy an archive.
   *
   * The response begins when the deployment is recorded. If the client disconnects after that, the deployment
   * continues.
   * @errors project_is_placed *upload invalid_field not_found other_project client_scripts_off locked queue_full
   * plan_unknown deploy_token_may_not outside_window only_promotion base_gone base_differs assembly_incomplete
   * assembly_differs invalid_patch invalid_tree tree_too_large broken_gzip upload_unknown upload_incomplete upload_busy upload_differs
   * *signed sbom_missing invalid_sbom sbom_too_large tree_differs
   */
  'POST /api/deploy/upload': {
    headers: Traced
    form: {
      /** The zip archive; with `base`, only the contents that the release does not have. @contentMediaType application/zip */
      file?: string
      /** Instead of `file`: the upload in pieces (`POST /api/uploads`) that contains it. @maxLength 100 */
      uploadId?: string
      /** A kept release (`GET /api/deploy/check`) whose contents the archive is completed with. @maxLength 100 */
      base?: string
      /** With `base`: the SHA-256 of the canonical text of the whole tree. @maxLength 64 */
      treeSha256?: string
      /** With `base`: what distinguishes the tree from that of the release. @contentMediaType text/vnd.svc-tree */
      tree?: string
      /**
       * With `base`: the name of the entry of the archive that contains differences within files, in place of their
       * contents (docs/api.md). @maxLength 100
       */
      patches?: string
      /** The project to deploy to. */
      projectId: string
      /** A script to run before extraction, if the project allows it. @maxLength 100000 */
      preDeploy?: string
      /** A script to run after extraction, if the project allows it. @maxLength 100000 */
      postDeploy?: string
      /** Whether to finish the deployment without waiting for the post-deploy script. */
      postDeployAsync?: Switch
      /** Environment variables for the scripts: a JSON object of strings. */
      env?: string
      /** A note on the deployment. @maxLength 500 */
      message?: string
      /**
       * The time in which the deployment must be confirmed; otherwise the earlier files are put back.
       * @minimum 10
       * @maximum 86400
       */
      confirmSeconds?: number
      /** Origin of the archive: a JSON object as in the schema Provenance, at most 16384 bytes. */
      provenance?: string
      /**
       * What this deployment sets instead of the policy `rollout` of the project: a JSON object. Only for a project
       * that is placed on nodes.
       */
      rollout?: string
      /**
       * The plan that the deployment is held to: it fails with `plan_outdated` if the target has changed since.
       * @maxLength 100
       */
      planId?: string
      /** Why it begins outside of the windows of the project. Needs the role operator. @maxLength 500 */
      override?: string
      /** When it begins, at most 30 days ahead. Default: at once. @format date-time */
      startAt?: string
      /** The statement about the release that was signed: in-toto, version 1, at most 256 KiB. */
      statement?: string
      /** A signature of the statement, at most 16 KiB; the field may come 16 times. @maxLength 16384 */
      signature?: string
      /** The list of components, CycloneDX or SPDX, at most 10 MiB. @contentMediaType application/json */
      sbom?: string
    }
    /**
     * The output while it is written, one JSON object per line. The last line contains the status.
     * @header X-Svc-Deploy-Id The id of the deployment. It is sent as soon as the deployment is recorded.
     * @header X-Svc-Deploy-Url The URL of the deployment's page, if the server knows its public URL.
     * @example "{\"event\":\"log\",\"data\":\"→ Extracting 12
     * files\"}\n{\"event\":\"status\",\"status\":\"success\",\"duration\":\"1.2s\",\"deployId\":\"dep_1a2b3c4d5e6f7a8b\"}\n"
     */
    media: 'application/x-ndjson'
  }
  /**
   * Check whether an upload would be accepted.
   *
   * Fails with the same errors as an upload, so that a client can check before it packs files.
   * @errors invalid_field no_such_project other_project client_scripts_off deploy_token_needed locked home_full
   * outside_window only_promotion deploy_token_may_not
   * project_quota disk_full shutting_down
   */
  'GET /api/deploy/check': {
    query: {
      /** The project to deploy to. */
      projectId: string
      /** Scripts that the upload would contain: preDeploy, postDeploy, separated by commas. */
      scripts?: string
      /** Why it would begin outside of the windows of the project. @maxLength 500 */
      override?: string
      /** The tree of a release that the client knows: the answer names a kept release with it, or else the newest one. */
      base?: string
      /** When it would begin. Default: at once. @format date-time */
      startAt?: string
    }
    /** The limits of the upload. */
    answer: UploadPermit
  }
  /**
   * Read the tree of a kept release.
   *
   * An upload of changes builds on it: its form names the release in `base`. The lines are those of a plan, with 16 digits
   * of each SHA-256, compressed with gzip.
   * @errors not_found other_project base_gone invalid_field
   */
  'GET /api/deploy/base': {
    query: ReleaseQuery
    /**
     * The tree.
     * @example "svc-tree 1 16\n100644 5120 9f86d081884c7d65 1767225600000 assets/app.js\nend 1
     * 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
     * 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"
     */
    media: 'text/vnd.svc-tree'
  }
  /**
   * Get sums of the blocks of files of a kept release.
   *
   * A client that has the new contents finds in them what the release already has, and sends the rest (`patches` of
   * `POST /api/deploy/upload`). The answer contains the sums of each file (docs/api.md), in the order of `lines`, without
   * anything between them. The files have at most 1 GB in total.
   * @errors not_found other_project base_gone invalid_field
   */
  'POST /api/deploy/sums': {
    query: ReleaseQuery
    body: typeof sumsFields
    /** The sums. */
    media: 'application/octet-stream'
  }
  /**
   * Roll back to an earlier deployment.
   *
   * With the mode `overlay`, deploys the archive of that deployment again: it replaces files and removes none. With
   * `exact`, restores the state of the target after that deployment: paths, contents, permissions and times. With
   * `Accept: application/x-ndjson`, the response streams the output as an upload does. Otherwise it is sent when the
   * deployment has finished. With `dryRun`, it says what the rollback would do.
   * @errors *signed project_is_placed not_found no_archive partial_archive not_exact torn_manifest foreign_change tree_not_ready
   * plan_busy
   * changed_meanwhile not_finished invalid_field locked queue_full disk_full shutting_down damaged_index damaged_pack
   * index_too_new
   */
  'POST /api/deployments/:id/rollback': {
    headers: Traced
    body?: typeof rollbackFields
    /**
     * The result of the deployment; with `dryRun`, what would happen.
     * @header X-Svc-Deploy-Id The id of the deployment. It is sent as soon as the deployment is recorded.
     * @header X-Svc-Deploy-Url The URL of the deployment's page, if the server knows its public URL.
     */
    answer: Ran | RollbackPlan
  }
  /**
   * Undo the last deployment.
   *
   * Restores the state of the target before the last deployment that changed it, also if that failed: paths, contents,
   * permissions and times. It is a deployment, which can be undone, too. The answer is that of a rollback.
   * @errors *signed not_found nothing_to_undo undo_outdated not_exact foreign_change tree_not_ready torn_manifest
   * plan_busy changed_meanwhile
   * invalid_field locked queue_full disk_full shutting_down
   */
  'POST /api/projects/:id/undo': {
    headers: Traced
    body?: typeof undoFields
    /**
     * The result of the deployment; with `dryRun`, what would happen.
     * @header X-Svc-Deploy-Id The id of the deployment. It is sent as soon as the deployment is recorded.
     * @header X-Svc-Deploy-Url The URL of the deployment's page, if the server knows its public URL.
     */
    answer: Ran | RollbackPlan
  }
  /**
   * Promote a release of another project.
   *
   * Deploys the archive of that deployment, with the scripts of this project. Needs the right to see the other project,
   * unless the policy `promoteFrom` names it. The answer is that of a rollback; with `dryRun`, it says what would happen.
   * @errors *signed sbom_missing not_found no_archive partial_archive not_promotable only_promotion outside_window deploy_token_may_not
   * tree_not_ready torn_manifest plan_busy not_finished invalid_field locked queue_full disk_full home_full project_quota shutting_down
   * no_manifest damaged_index damaged_pack index_too_new
   */
  'POST /api/projects/:id/promote': {
    headers: Traced
    body: typeof promoteFields
    /**
     * The result of the deployment; with `dryRun`, what would happen.
     * @header X-Svc-Deploy-Id The id of the deployment. It is sent as soon as the deployment is recorded.
     * @header X-Svc-Deploy-Url The URL of the deployment's page, if the server knows its public URL.
     */
    answer: Ran | RollbackPlan
    also: {
      /** The deployment waits for an approval, or for its time. Its record says how it ends. */
      202: Ran
    }
  }
  /**
   * Approve a deployment that waits for it.
   *
   * It begins when as many have approved it as the policy `approval` of the project asks for, or waits for its time
   * (`startAt`). The last approval is refused while the project is locked or outside of its windows, or after a later
   * release is in place.
   * @errors not_found not_waiting already_decided not_an_approver own_push tree_differs superseded locked
   * outside_window invalid_field
   */
  'POST /api/deployments/:id/approve': {
    body: typeof approveFields
    /** The record. */
    answer: Marked
  }
  /**
   * Reject a deployment that waits for an approval: it fails, and has changed nothing.
   * @errors not_found not_waiting already_decided not_an_approver invalid_field
   */
  'POST /api/deployments/:id/reject': {
    body?: typeof rejectFields
    /** The record. */
    answer: Marked
  }
  /**
   * Say what a deployment would do that has not begun.
   *
   * Compares the files of its archive with the target on the disk. Only while it waits for an approval or for its time.
   * @errors not_found not_waiting other_project tree_not_ready torn_manifest plan_busy changed_meanwhile helper_failed
   */
  'GET /api/deployments/:id/plan': {
    /** What would happen. */
    answer: RollbackPlan
  }
  /** Cancel a queued or running deployment. @errors not_found already_finished other_project */
  'POST /api/deployments/:id/cancel': {
    /** The record. */
    answer: Cancelled
  }
  /** Correct the status of a finished deployment. @errors not_found not_finished */
  'PATCH /api/deployments/:id/status': {
    body: typeof markFields
    /** The record. */
    answer: Marked
  }
  /**
   * Delete the archive of a deployment.
   *
   * The record, the output and the list of files stay. Refused while the archive is needed: its files are in the
   * target, nodes get it, or an exact undo needs it.
   * @errors not_found not_finished no_archive archive_needed invalid_field
   */
  'DELETE /api/deployments/:id/archive': {
    query: {
      /** Whether to delete an archive that an exact undo needs. Default: false. */
      force?: Switch
    }
    /** The record. */
    answer: Marked & { freedBytes: number }
  }
  /**
   * Give up a target that is gone for good.
   *
   * A deployment was interrupted, and its target is not there any more (`unfinishedTargets` of `GET
   * /api/health/detail`). Nothing is finished or undone in it afterwards, also if it comes back. Refused while the
   * target is there. On a hub of a cluster, the target of that machine is meant.
   * @errors not_found target_there hub_unreachable
   */
  'DELETE /api/unfinished-targets/:deployId': {
    /** What was given up. */
    answer: { success: true; given: UnfinishedTarget }
  }
  /** List the files of a deployment. @errors not_found no_manifest torn_manifest other_project */
  'GET /api/deployments/:id/files': {
    /** The files. */
    answer: ManifestFile[]
  }
  /**
   * List what a client has sent about a release.
   *
   * The statement, its signatures, and the list of its components. They are as they were sent.
   * @errors not_found other_project
   */
  'GET /api/deployments/:id/attestations': {
    /** The files. */
    answer: { attestations: AttestationFile[] }
  }
  /** Download one of them: `statement.json`, `1.sig`, `sbom.json`. @errors not_found other_project */
  'GET /api/deployments/:id/attestations/:name': {
    /** The file. @example "{}" */
    media: 'application/json'
  }
  /** Compare the files of two deployments. @errors not_found no_manifest torn_manifest other_project invalid_field */
  'GET /api/deployments/:id/changes': {
    query: {
      /** The id of the deployment to compare with. */
      against: string
    }
    /** The differences. */
    answer: Changes
  }
  /**
   * Get the receipt of a deployment.
   *
   * A receipt is made when the deployment has finished and is settled. It is a DSSE envelope of an in-toto statement, signed
   * by the key of the server: `docs/proof.md` says how to check it without svc.
   * @errors not_found no_receipt receipt_unmade server_key other_project invalid_field
   */
  'GET /api/deployments/:id/receipt': {
    query: {
      /** `receipt` (default), or `result`: a Simple Verification Result for programs that know only that form. */
      form?: (typeof receiptForms)[number]
    }
    /**
     * The envelope.
     * @example "{\"payloadType\":\"application/vnd.in-toto+json\",\"payload\":\"eyJ…\",\"signatures\":[…]}\n"
     */
    media: 'application/vnd.in-toto+dsse'
  }
  /**
   * Get the receipts of deployments.
   *
   * The first line has the keys that followed the first key of the server, each signed by the one before. Each further line
   * is a receipt. `svc receipt verify` checks the whole offline.
   * @errors not_found other_project invalid_field
   */
  'GET /api/receipts': {
    query: {
      /** Only receipts of this project. */
      projectId?: string
      /** Only receipts that were made from this time on (ISO 8601). @format date-time */
      since?: string
    }
    /**
     * The receipts, oldest first.
     * @example "{\"svcReceipts\":\"1\",\"successors\":[]}\n{\"payloadType\":\"application/vnd.in-toto+json\",\"payload\":\"eyJ…\"}\n"
     */
    media: 'application/x-ndjson'
  }
  /**
   * List deployments, newest first.
   *
   * The deploy token of a project lists only the deployments of that project. Without a query, the list contains the
   * newest 500, and at least the newest 10 of every project.
   * @errors invalid_field not_found other_project
   */
  'GET /api/logs': {
    query: {
      /** Only deployments of this project. */
      projectId?: string
      /** Only deployments of this branch or tag, as reported by their clients. */
      branch?: string
      /** Only deployments of commits whose id begins with these hexadecimal digits, at least 4. */
      commit?: string
      /** Only deployments whose request had this `X-Svc-Trace-Id`. */
      traceId?: string
      /** Whether to list only the newest deployment of each project. Default: false. */
      newest?: Switch
      /** Only deployments with this status. */
      status?: 'queued' | 'running' | 'success' | 'failed'
      /** Id of a deployment. Lists only older ones. */
      before?: string
      /** "end" returns the last 4 KiB of each output, "none" returns no output. Default: "end". */
      output?: 'end' | 'none'
      /** Maximum number of items. Default: 100. Values above 500 are lowered to 500. @minimum 1 */
      limit?: number
    }
    /** The deployments. @header X-Total-Count The total number of deployments that match the filters. */
    answer: DeploymentAnswer[]
  }
  /** Get a deployment. @errors not_found other_project invalid_field */
  'GET /api/logs/:deployId': {
    query: {
      /** "whole" returns the last 1 MiB of the output, "end" the last 4 KiB. Default: "whole". */
      output?: 'whole' | 'end'
    } & Timed
    /** The deployment. */
    answer: DeploymentAnswer
  }
  /**
   * Follow the output of a deployment.
   *
   * Streams server-sent events: `log` and, at the end, `status`. The `data` of `log` is a JSON string: in the first
   * event the output so far, up to 256 KiB, then one line each. With `timestamps`, every `log` is one line as an object
   * with its time. After an interruption, send `Last-Event-ID` to continue.
   * @errors not_found other_project invalid_field
   */
  'GET /api/logs/:deployId/stream': {
    query: Timed
    headers: Continued
    /** The events. @example "event: log\nid: 128\ndata: \"→ Extracting 12 files\"\n\n" */
    media: 'text/event-stream'
  }
  /** Download the output of a deployment. @errors not_found other_project invalid_field */
  'GET /api/logs/:deployId/output': {
    query: Timed & {
      /**
       * Byte offset at which the part begins. Without `from`, `before` and `bytes`, the whole output is sent.
       * @minimum 0
       */
      from?: number
      /** Byte offset before which the part ends. @minimum 0 */
      before?: number
      /** Maximum size of the part in bytes. Default: 262144. Values above 1048576 are lowered to 1048576. @minimum 1 */
      bytes?: number
    }
    /**
     * The output.
     * @header X-Svc-Output-From Byte offset at which the part begins. Only sent for a part.
     * @header X-Svc-Output-To Byte offset at which the part ends. Only sent for a part.
     * @example "→ Extracting 12 files\n"
     */
    media: 'text/plain'
  }
}

/** The deployment after a decision. */
interface Decided {
  success: boolean
  deployment: DeploymentAnswer
}

/** Decisions about deployments whose earlier files can still be put back. */
export interface DecisionRoutes {
  /**
   * Confirm a deployment.
   *
   * Settles a deployment that waits to be confirmed: its files stay. The response is sent when the result is recorded.
   * @errors not_found not_waiting too_late other_project
   */
  'POST /api/deployments/:id/confirm': {
    /** The record. */
    answer: Decided
  }
  /**
   * Put the files before a deployment back.
   *
   * Possible while the checks of the deployment run, and while it waits to be confirmed. `success` is false if the
   * files could not be put back yet.
   * @errors not_found not_waiting too_late other_project
   */
  'POST /api/deployments/:id/revert': {
    /** The record. */
    answer: Decided
  }
}
