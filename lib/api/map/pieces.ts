import type { OpenUpload } from '../../model/access.js'
import type { uploadFields } from '../uploads.js'

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
