import { maxProvenanceBytes } from '../../../model/provenance.js'
import { confirmLimits } from '../../../model/gate.js'
import { maxMessageLength } from '../../../model/deployment.js'
import { maxScriptLength } from '../../../base/fields.js'
import { maxPlanIdLength } from '../../upload.js'
import { markFields, rollbackFields, undoFields } from '../../deployments.js'
import {
  lastEventId,
  answer,
  limitOf,
  media,
  query,
  requiredQuery,
  switchSchema,
  type FormPart,
  traceId,
  type Operations
} from '../operation.js'
import { rollbackPlan } from '../plans.js'
import type { UnfinishedTarget } from '../../../model/health.js'
import { success } from '../records/common.js'
import { unfinishedTarget } from '../records/machine.js'
import { changes, deployment, manifestFile, uploadPermit } from '../records/deployments.js'
import { ranAnswers, runHeaders } from '../records/run.js'
import { anyOf, integer, list, record, text } from '../schema.js'

const runExample =
  '{"event":"log","data":"→ Extracting 12 files"}\n{"event":"status","status":"success","duration":"1.2s","deployId":"dep_1a2b3c4d5e6f7a8b"}\n'
const run = media(
  'The output while it is written, one JSON object per line. The last line contains the status',
  'application/x-ndjson',
  { example: runExample, headers: runHeaders }
)
const timestamps = query('timestamps', 'Whether to begin each line with its time. Default: false', switchSchema)
const uploadErrors = [
  'no_file',
  'no_boundary',
  'broken_boundary',
  'broken_header',
  'header_too_long',
  'field_too_long',
  'epilogue_too_long',
  'too_many_parts',
  'truncated',
  'aborted',
  'empty_upload',
  'too_large',
  'home_full',
  'project_quota',
  'disk_full',
  'body_timeout',
  'unsupported_type',
  'no_second_copy',
  'not_placed',
  'shutting_down'
]

const parts: FormPart[] = [
  {
    name: 'file',
    description: 'The zip archive',
    schema: { type: 'string', contentMediaType: 'application/zip' },
    required: true
  },
  { name: 'projectId', description: 'The project to deploy to', schema: { type: 'string' }, required: true },
  {
    name: 'preDeploy',
    description: 'A script to run before extraction, if the project allows it',
    schema: { type: 'string', maxLength: maxScriptLength }
  },
  {
    name: 'postDeploy',
    description: 'A script to run after extraction, if the project allows it',
    schema: { type: 'string', maxLength: maxScriptLength }
  },
  {
    name: 'postDeployAsync',
    description: 'Whether to finish the deployment without waiting for the post-deploy script',
    schema: switchSchema
  },
  {
    name: 'env',
    description: 'Environment variables for the scripts: a JSON object of strings',
    schema: { type: 'string' }
  },
  { name: 'message', description: 'A note on the deployment', schema: { type: 'string', maxLength: maxMessageLength } },
  {
    name: 'confirmSeconds',
    description: 'The time in which the deployment must be confirmed; otherwise the earlier files are put back',
    schema: { type: 'integer', minimum: confirmLimits.min, maximum: confirmLimits.max }
  },
  {
    name: 'provenance',
    description: `Origin of the archive: a JSON object as in the schema Provenance, at most ${maxProvenanceBytes} bytes`,
    schema: { type: 'string' }
  },
  {
    name: 'rollout',
    description:
      'What this deployment sets instead of the policy `rollout` of the project: a JSON object. Only for a project that is placed on nodes',
    schema: { type: 'string' }
  },
  {
    name: 'planId',
    description:
      'The plan that the deployment is held to: it fails with `plan_outdated` if the target has changed since',
    schema: { type: 'string', maxLength: maxPlanIdLength }
  }
]

type Marked = { success: true; deployment: unknown }
type Cancelled = Marked & { message: string }
/** The answers of a rollback and of an undo. */
const rolledBack = {
  200: {
    ...ranAnswers[200],
    what: 'The result of the deployment; with `dryRun`, what would happen',
    json: anyOf(ranAnswers[200].json, rollbackPlan) as never
  }
}

/** Deployments, their records and their output. */
export const deploymentOperations: Operations = {
  'POST /api/deploy/upload': {
    summary: 'Deploy an archive',
    description:
      'The response begins when the deployment is recorded. If the client disconnects after that, the deployment continues.',
    parameters: [traceId],
    form: parts,
    answers: run,
    errors: [
      'project_is_placed',
      ...uploadErrors,
      'invalid_field',
      'not_found',
      'other_project',
      'client_scripts_off',
      'locked',
      'queue_full',
      'plan_unknown',
      'deploy_token_may_not'
    ]
  },
  'GET /api/deploy/check': {
    summary: 'Check whether an upload would be accepted',
    description: 'Fails with the same errors as an upload, so that a client can check before it packs files.',
    parameters: [
      requiredQuery('projectId', 'The project to deploy to'),
      query('scripts', 'Scripts that the upload would contain: preDeploy, postDeploy, separated by commas')
    ],
    answers: answer('The limits of the upload', uploadPermit),
    errors: [
      'invalid_field',
      'no_such_project',
      'other_project',
      'client_scripts_off',
      'deploy_token_needed',
      'locked',
      'home_full',
      'project_quota',
      'disk_full',
      'shutting_down'
    ]
  },
  'POST /api/deployments/:id/rollback': {
    summary: 'Roll back to an earlier deployment',
    description:
      'With the mode `overlay`, deploys the archive of that deployment again: it replaces files and removes none. With `exact`, restores the state of the target after that deployment: paths, contents, permissions and times. With `Accept: application/x-ndjson`, the response streams the output as an upload does. Otherwise it is sent when the deployment has finished. With `dryRun`, it says what the rollback would do.',
    parameters: [traceId],
    body: rollbackFields,
    fields: {
      message: 'A note on the deployment',
      mode: 'Default: the policy `rollback` of the project',
      force: 'Whether an exact rollback takes back files that were edited since. Default: false, they stay',
      dryRun: 'Whether to say what would happen, and change nothing. Default: false'
    },
    isBodyOptional: true,
    answers: rolledBack,
    errors: [
      'project_is_placed',
      'not_found',
      'no_archive',
      'partial_archive',
      'not_exact',
      'foreign_change',
      'tree_not_ready',
      'plan_busy',
      'changed_meanwhile',
      'not_finished',
      'invalid_field',
      'locked',
      'queue_full',
      'disk_full',
      'shutting_down'
    ]
  },
  'POST /api/projects/:id/undo': {
    summary: 'Undo the last deployment',
    description:
      'Restores the state of the target before the last deployment that changed it, also if that failed: paths, contents, permissions and times. It is a deployment, which can be undone, too. The answer is that of a rollback.',
    parameters: [traceId],
    body: undoFields,
    fields: {
      message: 'A note on the deployment',
      force: 'Whether files that were edited since are taken back, too. Default: false, they stay',
      dryRun: 'Whether to say what would happen, and change nothing. Default: false'
    },
    isBodyOptional: true,
    answers: rolledBack,
    errors: [
      'not_found',
      'nothing_to_undo',
      'undo_outdated',
      'not_exact',
      'foreign_change',
      'tree_not_ready',
      'plan_busy',
      'changed_meanwhile',
      'invalid_field',
      'locked',
      'queue_full',
      'disk_full',
      'shutting_down'
    ]
  },
  'POST /api/deployments/:id/cancel': {
    summary: 'Cancel a queued or running deployment',
    answers: answer(
      'The record',
      record<Cancelled>({ success, message: text('The deployment was cancelled'), deployment: deployment as never })
    ),
    errors: ['not_found', 'already_finished', 'other_project']
  },
  'PATCH /api/deployments/:id/status': {
    summary: 'Correct the status of a finished deployment',
    body: markFields,
    fields: { status: 'The correct status' },
    answers: answer('The record', record<Marked>({ success, deployment: deployment as never })),
    errors: ['not_found', 'not_finished']
  },
  'DELETE /api/deployments/:id/archive': {
    summary: 'Delete the archive of a deployment',
    description:
      'The record, the output and the list of files stay. Refused while the archive is needed: its files are in the target, nodes get it, or an exact undo needs it.',
    parameters: [query('force', 'Whether to delete an archive that an exact undo needs. Default: false', switchSchema)],
    answers: answer(
      'The record',
      record<Marked & { freedBytes: number }>({ success, freedBytes: integer(52_428), deployment: deployment as never })
    ),
    errors: ['not_found', 'not_finished', 'no_archive', 'archive_needed', 'invalid_field']
  },
  'DELETE /api/unfinished-targets/:deployId': {
    summary: 'Give up a target that is gone for good',
    description:
      'A deployment was interrupted, and its target is not there any more (`unfinishedTargets` of `GET /api/health/detail`). Nothing is finished or undone in it afterwards, also if it comes back. Refused while the target is there. On a hub of a cluster, the target of that machine is meant.',
    answers: answer(
      'What was given up',
      record<{ success: true; given: UnfinishedTarget }>({ success, given: unfinishedTarget })
    ),
    errors: ['not_found', 'target_there', 'hub_unreachable']
  },
  'GET /api/deployments/:id/files': {
    summary: 'List the files of a deployment',
    answers: answer('The files', list(manifestFile)),
    errors: ['not_found', 'no_manifest', 'torn_manifest', 'other_project']
  },
  'GET /api/deployments/:id/changes': {
    summary: 'Compare the files of two deployments',
    parameters: [requiredQuery('against', 'The id of the deployment to compare with')],
    answers: answer('The differences', changes),
    errors: ['not_found', 'no_manifest', 'torn_manifest', 'other_project', 'invalid_field']
  },
  'GET /api/logs': {
    summary: 'List deployments, newest first',
    description:
      'The deploy token of a project lists only the deployments of that project. Without a query, the list contains the newest 500, and at least the newest 10 of every project.',
    parameters: [
      query('projectId', 'Only deployments of this project'),
      query('branch', 'Only deployments of this branch or tag, as reported by their clients'),
      query('commit', 'Only deployments of commits whose id begins with these hexadecimal digits, at least 4'),
      query('traceId', 'Only deployments whose request had this `X-Svc-Trace-Id`'),
      query('newest', 'Whether to list only the newest deployment of each project. Default: false', switchSchema),
      query('status', 'Only deployments with this status', {
        type: 'string',
        enum: ['queued', 'running', 'success', 'failed']
      }),
      query('before', 'Id of a deployment. Lists only older ones'),
      query('output', '"end" returns the last 4 KiB of each output, "none" returns no output. Default: "end"', {
        type: 'string',
        enum: ['end', 'none']
      }),
      limitOf(100, 500)
    ],
    answers: answer('The deployments', list(deployment), {
      'X-Total-Count': 'The total number of deployments that match the filters.'
    }),
    errors: ['invalid_field', 'not_found', 'other_project']
  },
  'GET /api/logs/:deployId': {
    summary: 'Get a deployment',
    parameters: [
      query('output', '"whole" returns the last 1 MiB of the output, "end" the last 4 KiB. Default: "whole"', {
        type: 'string',
        enum: ['whole', 'end']
      }),
      timestamps
    ],
    answers: answer('The deployment', deployment),
    errors: ['not_found', 'other_project', 'invalid_field']
  },
  'GET /api/logs/:deployId/stream': {
    summary: 'Follow the output of a deployment',
    description:
      'Streams server-sent events: `log` and, at the end, `status`. The `data` of `log` is a JSON string: in the first event the output so far, up to 256 KiB, then one line each. With `timestamps`, every `log` is one line as an object with its time. After an interruption, send `Last-Event-ID` to continue.',
    parameters: [timestamps, lastEventId],
    answers: media('The events', 'text/event-stream', {
      example: 'event: log\nid: 128\ndata: "→ Extracting 12 files"\n\n'
    }),
    errors: ['not_found', 'other_project', 'invalid_field']
  },
  'GET /api/logs/:deployId/output': {
    summary: 'Download the output of a deployment',
    parameters: [
      timestamps,
      query(
        'from',
        'Byte offset at which the part begins. Without `from`, `before` and `bytes`, the whole output is sent',
        { type: 'integer', minimum: 0 }
      ),
      query('before', 'Byte offset before which the part ends', { type: 'integer', minimum: 0 }),
      query(
        'bytes',
        'Maximum size of the part in bytes. Default: 262144. Values above 1048576 are lowered to 1048576',
        {
          type: 'integer',
          minimum: 1
        }
      )
    ],
    answers: media('The output', 'text/plain', {
      example: '→ Extracting 12 files\n',
      headers: {
        'X-Svc-Output-From': 'Byte offset at which the part begins. Only sent for a part.',
        'X-Svc-Output-To': 'Byte offset at which the part ends. Only sent for a part.'
      }
    }),
    errors: ['not_found', 'other_project', 'invalid_field']
  }
}
