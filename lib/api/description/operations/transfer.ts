import { archiveErrors } from '../errors.js'
import { strategies, type ImportResult } from '../../../model/transfer.js'
import { answer, media, query, switchSchema, type Operations } from '../operation.js'
import { success } from '../records/common.js'
import { importResult, inspection } from '../records/transfer.js'
import { record } from '../schema.js'

const to = query(
  'to',
  'Absolute path of an empty file on the server to write to. Only allowed through the socket in the data directory'
)

/** Options of an import, in the query or in the form. */
const importOptions = [
  {
    name: 'strategy',
    description: 'How to treat records that already exist. Default: "skip-existing"',
    schema: { type: 'string', enum: strategies },
    required: false
  },
  {
    name: 'restoreArtifacts',
    description: 'Whether to extract archives into targets. Default: true',
    schema: switchSchema,
    required: false
  },
  {
    name: 'accessSettings',
    description: 'Whether to import the settings that control access. Default: false',
    schema: switchSchema,
    required: false
  },
  {
    name: 'dryRun',
    description: 'Whether to only report what would change. Default: false',
    schema: switchSchema,
    required: false
  }
] as const

/** Export, import, verification and backup. */
export const transferOperations: Operations = {
  'GET /api/migration/export': {
    summary: 'Export projects as a package',
    parameters: [
      query('projects', 'Ids of the projects to export, separated by commas. Default: all projects'),
      query('artifacts', 'Whether to include archives. Default: true', switchSchema),
      query('logs', 'Whether to include deployments and their output. Default: true', switchSchema),
      query('recent', 'Maximum number of deployments per project, newest first. Default: all', {
        type: 'integer',
        minimum: 0
      }),
      query('ignore', 'Pattern of files to exclude when a target is packed. May be repeated'),
      query('ignoreBuiltin', 'Whether to apply the builtin ignore patterns. Default: true', switchSchema),
      to
    ],
    answers: media('The package', 'application/zip', {
      headers: {
        'X-Svc-Expected-Bytes': 'Approximate number of bytes that the server reads for the export.'
      }
    }),
    errors: ['invalid_field', 'glob_too_large', 'not_found', 'cannot_write_there', 'disk_full']
  },
  'POST /api/migration/import': {
    summary: 'Import a package',
    parameters: [
      ...importOptions.map(({ name, description, schema }) => query(name, description, schema)),
      {
        in: 'header',
        name: 'X-Confirm-Overwrite',
        description: 'Must be "yes" if the strategy is "overwrite"',
        schema: { type: 'string' }
      }
    ],
    form: [
      {
        name: 'file',
        description: 'The package',
        schema: { type: 'string', contentMediaType: 'application/zip' },
        required: true
      },
      ...importOptions
    ],
    answers: answer('The result of the import', record<{ success: true } & ImportResult>({ success, ...importResult })),
    errors: [
      ...archiveErrors,
      'name_taken',
      'invalid_setting',
      'changed_meanwhile',
      'transaction_too_large',
      'confirmation_needed',
      'not_a_package',
      'broken_package',
      'newer_package',
      'clashing_projects',
      'deployment_in_use',
      'no_file',
      'invalid_field',
      'home_full',
      'disk_full',
      'no_boundary',
      'broken_boundary',
      'broken_header',
      'too_many_parts',
      'truncated',
      'aborted',
      'empty_upload',
      'unsupported_type',
      'body_timeout'
    ]
  },
  'GET /api/migration/verify': {
    summary: 'Check the database and the targets',
    answers: answer('The findings', inspection)
  },
  'GET /api/backup': {
    summary: 'Back up the data directory',
    description:
      'Requests must come through the Unix socket in the data directory. `svc backup` uses this route and adds the seal.',
    parameters: [to],
    answers: media('The backup without its seal', 'application/zip'),
    errors: ['no_space', 'cannot_write_there', 'database_unavailable']
  }
}
