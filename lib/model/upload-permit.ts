import type { Project } from './project.js'

/** What an upload may be, as `GET /api/deploy/check` answers it. */
export interface UploadPermit {
  success: true
  project: Pick<Project, 'id' | 'name' | 'env'>
  /** Maximum size of the archive. */
  maxUploadBytes: number
  /** Maximum uncompressed size of the archive. */
  maxExtractedBytes: number
}
