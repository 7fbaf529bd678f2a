import { archiveErrors } from '../errors.js'
import { strategies, type ImportResult } from '../../../model/transfer.js'
import { answer, media, query, switchSchema, type Operations } from '../operation.js'
import { importResult, inspection, success } from '../records.js'
import { record } from '../schema.js'

const to = query('to', 'A file on the server to write instead. Only through the socket in the data directory')

export const transferOperations: Operations = {
  'GET /api/migration/export': {
    summary: 'Export projects',
    parameters: [
      query('projects', 'Only these projects, separated by commas'), query('artifacts', 'Whether to include archives. Default: true', switchSchema),
      query('logs', 'Whether to include deployments and their output. Default: true', switchSchema),
      query('recent', 'Only so many deployments of each project', { type: 'integer', minimum: 0 }),
      query('ignore', 'A pattern of files to leave out of targets that are packed; may be repeated'),
      query('ignoreBuiltin', 'Whether the builtin patterns apply. Default: true', switchSchema), to
    ],
    answers: media('The package', 'application/zip', undefined, { 'X-Svc-Expected-Bytes': 'About how much will be read.' }),
    errors: ['invalid_field', 'glob_too_large', 'not_found', 'cannot_write_there', 'disk_full']
  },
  'POST /api/migration/import': {
    summary: 'Import a package',
    parameters: [
      query('strategy', 'What to do with records that exist. Default: "skip-existing"', { type: 'string', enum: strategies }),
      query('restoreArtifacts', 'Whether to extract archives into targets. Default: true', switchSchema),
      query('accessSettings', 'Whether to import settings that decide who has access. Default: false', switchSchema),
      query('dryRun', 'Whether to only say what would change. Default: false', switchSchema),
      { in: 'header', name: 'X-Confirm-Overwrite', description: '"yes", if the strategy is "overwrite"', schema: { type: 'string' } }
    ],
    form: [{ name: 'file', description: 'The package', schema: { type: 'string', contentMediaType: 'application/zip' }, required: true }],
    answers: answer('The result', record<{ success: true } & ImportResult>({ success, ...importResult })),
    errors: [
      ...archiveErrors, 'name_taken', 'invalid_setting', 'changed_meanwhile', 'transaction_too_large', 'confirmation_needed', 'not_a_package', 'broken_package', 'newer_package', 'clashing_projects', 'deployment_in_use', 'no_file', 'invalid_field', 'home_full', 'disk_full',
      'no_boundary', 'broken_boundary', 'broken_header', 'truncated', 'aborted', 'empty_upload', 'unsupported_type', 'body_timeout'
    ]
  },
  'GET /api/migration/verify': { summary: 'Check the database and the targets', answers: answer('The findings', inspection) },
  'GET /api/backup': {
    summary: 'Back up the data directory',
    description: 'Only through the socket in the data directory: `svc backup` uses it, and adds a seal.',
    parameters: [to],
    answers: media('The backup without its seal', 'application/zip'),
    errors: ['no_space', 'cannot_write_there', 'database_unavailable']
  }
}
