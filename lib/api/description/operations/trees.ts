import { repairFields } from '../../deployments.js'
import type { TreeSummary } from '../../../model/verify.js'
import { answer, media, query, requiredQuery, switchSchema, traceId, type Operations } from '../operation.js'
import { driftReport } from '../plans.js'
import { success } from '../records/common.js'
import { ranAnswers } from '../records/run.js'
import { described, instant, integer, named, nullable, oneOf, record, text, type Schema } from '../schema.js'

const digest = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
const deployId = text('dep_1a2b3c4d5e6f7a8b')

const events = [
  { event: 'start', files: 5049, baseline: 'owned' },
  { event: 'finding', path: 'config.js', state: 'changed', since: 'dep_1a2b3c4d5e6f7a8b' },
  { event: 'progress', done: 1000, files: 5049 },
  { event: 'end', files: 5049, ok: 5048, changed: 1, missing: 0, otherType: 0, mode: 0, isOutdated: false }
]

const treeSummary: Schema<TreeSummary> = named(
  'TreeSummary',
  record<TreeSummary>({
    success,
    baseline: described(
      'What the server knows of the files that svc put into the target',
      oneOf(['owned', 'building', 'none'], 'owned')
    ),
    files: described('Number of files and symbolic links', integer(5049)),
    bytes: integer(22_454_025),
    liveId: described('The last deployment whose files are in the target', nullable(deployId)),
    treeSha256: described('The SHA-256 of the tree of these files', nullable(text(digest))),
    verified: described(
      'The last verification of these files. Null after a deployment or a restart',
      nullable(record<NonNullable<TreeSummary['verified']>>({ at: instant, differing: integer(0) }))
    ),
    drift: described(
      'The last search for edited files. Null after a deployment or a restart',
      nullable(record<NonNullable<TreeSummary['drift']>>({ at: instant, count: integer(1) }))
    ),
    undo: described(
      'The deployment that an undo would take back',
      nullable(record<NonNullable<TreeSummary['undo']>>({ deployId, message: nullable(text('New prices')) }))
    ),
    exactBackTo: described(
      'The oldest state that can be restored exactly, after this deployment (null: before the first one), and the number of steps to it',
      nullable(record<NonNullable<TreeSummary['exactBackTo']>>({ deployId: nullable(deployId), steps: integer(3) }))
    )
  })
)

/** The files that svc put into a target. */
export const treeOperations: Operations = {
  'GET /api/projects/:id/tree': {
    summary: 'Describe the files that svc put into the target',
    parameters: [
      query('drift', 'Whether to search for edited files if the last search is older than an hour', switchSchema)
    ],
    answers: answer('The number of files, and what is known of their state', treeSummary),
    errors: ['invalid_field', 'not_found', 'other_project']
  },
  'GET /api/projects/:id/verify': {
    summary: 'Verify the files that svc put into the target',
    description:
      'Reads every file and compares it with what svc put there. Nothing is changed. The response has one JSON object per line: `start`, `progress`, a `finding` for each entry that differs, and `end`. The `state` of a finding is `changed` (other contents, or not readable), `missing`, `other_type`, or `mode` (only other permission bits). `isOutdated` says that a deployment was in progress, so that findings may be its files. A response without `end` is incomplete.',
    parameters: [
      query(
        'sums',
        'Whether to add a line `file` with the SHA-256 that svc put there, for each regular file',
        switchSchema
      )
    ],
    answers: media('The findings while the files are read', 'application/x-ndjson', {
      example: events.map(event => `${JSON.stringify(event)}\n`).join('')
    }),
    errors: [
      'invalid_field',
      'not_found',
      'other_project',
      'verify_busy',
      'target_unusable',
      'changed_meanwhile',
      'helper_failed'
    ]
  },
  'POST /api/projects/:id/repair': {
    summary: 'Put back the files that are not as deployed',
    description:
      'Verifies the files, and deploys those that differ from the archives that contain them. Edited files that are replaced are kept, and an undo brings them back. A directory in the place of a file makes the deployment fail. With `Accept: application/x-ndjson`, the response streams the output as an upload does. Otherwise it is sent when the deployment has finished.',
    parameters: [traceId],
    body: repairFields,
    fields: {
      message: 'A note on the deployment',
      paths: 'The files to put back. Default: all that differ',
      runScripts: 'Whether the scripts of the last deployment run. Default: false'
    },
    isBodyOptional: true,
    answers: ranAnswers,
    errors: [
      'invalid_field',
      'not_found',
      'nothing_to_repair',
      'no_content',
      'verify_busy',
      'target_unusable',
      'changed_meanwhile',
      'helper_failed',
      'locked',
      'queue_full',
      'disk_full',
      'shutting_down'
    ]
  },
  'GET /api/projects/:id/drift': {
    summary: 'List the files that were edited on the server',
    description:
      'Compares the files that svc put into the target with those that are there now. Nothing is changed. A file whose size, modification time and inode are those that svc recorded is not read, unless `full` is given.',
    parameters: [query('full', 'Whether to read every file. Default: false', switchSchema)],
    answers: answer('The edited and removed files', driftReport),
    errors: ['invalid_field', 'not_found', 'other_project', 'plan_busy', 'changed_meanwhile', 'helper_failed']
  },
  'GET /api/projects/:id/drift/file': {
    summary: 'Download a file that was edited on the server',
    description:
      'Sends only regular files that svc put into the target and that were edited since. Files that may contain secrets are refused.',
    parameters: [requiredQuery('path', 'Path relative to the target, with "/" between segments')],
    answers: {
      ...media('The file', 'application/octet-stream'),
      206: { what: 'A range of the file', media: 'application/octet-stream' },
      304: { what: 'Not modified: the client already has the current file' },
      416: { what: 'The range is outside the file' }
    },
    errors: [
      'invalid_field',
      'not_found',
      'other_project',
      'not_a_file',
      'outside_target',
      'denied_path',
      'invalid_path',
      'not_readable',
      'changed_meanwhile',
      'helper_failed'
    ]
  }
}
