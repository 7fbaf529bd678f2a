import type { PlanAnswer } from '../../model/plan.js'
import type { Switch } from './common.js'
import type { OpenUpload } from '../../model/access.js'
import type { uploadFields } from '../uploads.js'

/** Plans. */
export interface PlanRoutes {
  /**
   * Say what a deployment would do.
   *
   * Compares a tree of files with the target on the disk. Nothing is changed. An upload with the returned `planId`
   * fails with `plan_outdated` if the target has changed since.

The body is a text with one line for each file and
   * symbolic link: mode, size, SHA-256, modification time in milliseconds, path. The lines are sorted by the UTF-8
   * bytes of the path. The last line contains the number of entries and the SHA-256 of all lines without their times,
   * after the line `svc-tree 1`. The body may be compressed with gzip (`Content-Encoding: gzip`). The first line says
   * how many hex digits each SHA-256 has: 64, or 16, which makes the body smaller. With 16, the last line also contains
   * the SHA-256 of the lines `<file or symlink> <size> <SHA-256> <path>`, of all 64 digits, and the upload is held to
   * it. Directories are not part of a tree.

With `Accept: application/x-ndjson`, the response streams the plan without
   * its lists, and then every path: one JSON object per line.
   * @errors project_is_placed deploy_token_may_not invalid_tree tree_too_large broken_gzip unsupported_type
   * body_timeout aborted invalid_field no_such_project not_found other_project plan_busy changed_meanwhile
   * helper_failed shutting_down
   */
  'POST /api/deploy/plan': {
    query: {
      /** The project to deploy to. */
      projectId: string
      /**
       * Maximum number of paths of each kind, at most 10000. Default: 200.
       * @minimum 0
       * @maximum 10000
       */
      list?: number
      /**
       * Whether to remove files of earlier deployments that the tree does not contain. `force` removes however many
       * they are, and `foreign` also removes what svc did not put there. Default: the policy of the project.
       */
      prune?: 'true' | 'false' | '1' | '0' | 'force' | 'foreign'
      /** Whether to replace edited files although the policy `drift` is `refuse`. Default: false. */
      force?: Switch
      /** Why it would begin outside of the windows of the project. @maxLength 500 */
      override?: string
      /** When it would begin. Default: at once. @format date-time */
      startAt?: string
    }
    headers: {
      /** The SHA-256 of each script that the upload would contain: `pre=<SHA-256>,post=<SHA-256>`. */
      'X-Svc-Scripts'?: string
      /** The client's time in milliseconds since 1970. */
      'X-Svc-Time'?: string
    }
    /**
     * The tree, at most 64 MB and 200000 entries.
     * @media text/vnd.svc-tree
     * @example "svc-tree 1 64\n100644 5120 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
     * 1767225600000 assets/app.js\nend 1 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"
     */
    text: string
    /** The plan. */
    answer: PlanAnswer
  }
}

/** Uploads that come in pieces. */
export interface PieceRoutes {
  /**
   * Begin an upload in pieces.
   *
   * For files that one request cannot carry, and for connections that break. The pieces are sent one after the other,
   * and `POST /api/deploy/upload` deploys the file by its `uploadId`. An upload that the same token has begun with the
   * same size and SHA-256 is continued: its offset says where. Each project has at most 4 unfinished uploads,
   * and the server 32.
   * @errors invalid_field not_found other_project empty_upload too_large too_many_uploads home_full project_quota
   * disk_full locked only_promotion shutting_down
   */
  'POST /api/uploads': {
    body: typeof uploadFields
    /**
     * The upload.
     * @header Upload-Offset Where the next piece begins.
     */
    answer: OpenUpload
  }
  /** Get the state of an upload in pieces. @errors upload_unknown */
  'GET /api/uploads/:id': {
    /**
     * The upload.
     * @header Upload-Offset Where the next piece begins.
     */
    answer: OpenUpload
  }
  /**
   * Append a piece to an upload.
   *
   * The answer comes after the piece was written. What arrived of a piece that was cut off stays, so ask for the offset
   * before you continue. Only one piece is taken at a time.
   * @errors upload_unknown wrong_offset upload_busy piece_too_long unsupported_type invalid_field aborted body_timeout
   * home_full project_quota disk_full shutting_down
   */
  'PATCH /api/uploads/:id': {
    headers: {
      /** The byte of the file at which the piece begins: the offset of the upload. @maxLength 15 */
      'Upload-Offset': string
    }
    /**
     * The bytes of the file from that byte on.
     * @media application/octet-stream
     * @example "PK"
     */
    text: string
    /**
     * The upload.
     * @header Upload-Offset Where the next piece begins.
     */
    answer: OpenUpload
  }
  /** Drop an upload in pieces. @errors upload_unknown upload_busy */
  'DELETE /api/uploads/:id': {
    /** The upload was removed. */
    answer: { success: true }
  }
}
