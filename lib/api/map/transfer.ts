import type { DatabaseState } from '../../carry/transfer/verify.js'
import type { Finding, ImportResult } from '../../model/transfer.js'
import type { Switch } from './common.js'

/** How an import treats existing records. */
interface ImportChoices {
  /** How to treat records that already exist. Default: "skip-existing". */
  strategy?: 'skip-existing' | 'merge' | 'overwrite'
  /** Whether to extract archives into targets. Default: true. */
  restoreArtifacts?: Switch
  /** Whether to import the settings that control access. Default: false. */
  accessSettings?: Switch
  /** Whether to only report what would change. Default: false. */
  dryRun?: Switch
}

/** A package that the server writes to a file of its own. */
interface ToFile {
  /**
   * Absolute path of an empty file on the server to write to. Only allowed through the socket in the data
   * directory.
   */
  to?: string
}

/** Export, import, verification and backup. */
export interface TransferRoutes {
  /** Export projects as a package. @errors invalid_field glob_too_large not_found cannot_write_there disk_full */
  'GET /api/migration/export': {
    query: {
      /** Ids of the projects to export, separated by commas. Default: all projects. */
      projects?: string
      /** Whether to include archives. Default: true. */
      artifacts?: Switch
      /** Whether to include deployments and their output. Default: true. */
      logs?: Switch
      /** Maximum number of deployments per project, newest first. Default: all. @minimum 0 */
      recent?: number
      /** Pattern of files to exclude when a target is packed. May be repeated. */
      ignore?: string
      /** Whether to apply the builtin ignore patterns. Default: true. */
      ignoreBuiltin?: Switch
    } & ToFile
    /** The package. @header X-Svc-Expected-Bytes Approximate number of bytes that the server reads for the export. */
    media: 'application/zip'
  }
  /**
   * Import a package.
   * @errors *archive name_taken invalid_setting changed_meanwhile transaction_too_large confirmation_needed
   * not_a_package broken_package newer_package clashing_projects deployment_in_use no_file invalid_field home_full
   * disk_full no_boundary broken_boundary broken_header too_many_parts truncated aborted empty_upload unsupported_type
   * body_timeout
   */
  'POST /api/migration/import': {
    query: ImportChoices
    headers: {
      /** Must be "yes" if the strategy is "overwrite". */
      'X-Confirm-Overwrite'?: string
    }
    form: {
      /** The package. @contentMediaType application/zip */
      file: string
    } & ImportChoices
    /** The result of the import. */
    answer: { success: true } & ImportResult
  }
  /** Check the database and the targets. */
  'GET /api/migration/verify': {
    /** The findings. */
    answer: DatabaseState & { findings: Finding[] }
  }
  /**
   * Back up the data directory.
   *
   * Requests must come through the Unix socket in the data directory. `svc backup` uses this route and adds the seal.
   * @errors no_space cannot_write_there database_unavailable
   */
  'GET /api/backup': {
    query: ToFile
    /** The backup without its seal. */
    media: 'application/zip'
  }
}
