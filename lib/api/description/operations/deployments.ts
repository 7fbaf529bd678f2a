import { maxProvenanceBytes } from '../../../model/provenance.js'
import { maxMessageLength, type FinalStatus } from '../../../model/deployment.js'
import { maxScriptLength } from '../../fields.js'
import { markFields, rollbackFields } from '../../deployments.js'
import { answer, limitOf, media, query, switchSchema, type FormPart, type Operations } from '../operation.js'
import { changes, deployment, manifestFile, success, uploadPermit } from '../records.js'
import { boolean, list, nullable, oneOf, optional, record, text } from '../schema.js'

const runHeaders = {
  'X-Svc-Deploy-Id': 'The id of the deployment. It is sent before anything can fail.',
  'X-Svc-Deploy-Url': 'The address of the deployment\'s page, if the server knows its own address.'
}
const runExample =
  '{"event":"log","data":"→ Extracting 12 files"}\n{"event":"status","status":"success","duration":"1.2s","deployId":"dep_1a2b3c4d5e6f7a8b"}\n'
const run = media('The output as it is written, one JSON object on each line; the last one holds the status', 'application/x-ndjson', runExample, runHeaders)
const timestamps = query('timestamps', 'Begins each line with its time', switchSchema)
const uploadErrors = [
  'no_file', 'no_boundary', 'broken_boundary', 'broken_header', 'header_too_long', 'field_too_long', 'epilogue_too_long', 'truncated', 'aborted', 'empty_upload',
  'too_large', 'home_full', 'project_quota', 'disk_full', 'body_timeout', 'unsupported_type', 'shutting_down'
]

const parts: FormPart[] = [
  { name: 'file', description: 'The zip archive', schema: { type: 'string', contentMediaType: 'application/zip' }, required: true },
  { name: 'projectId', description: 'The project to deploy to', schema: { type: 'string' }, required: true },
  { name: 'preDeploy', description: 'A script to run before extraction, if the project allows it', schema: { type: 'string', maxLength: maxScriptLength } },
  { name: 'postDeploy', description: 'A script to run after extraction, if the project allows it', schema: { type: 'string', maxLength: maxScriptLength } },
  { name: 'postDeployAsync', description: 'Do not wait for the post-deploy script', schema: switchSchema },
  { name: 'env', description: 'Variables for the scripts: a JSON object of strings', schema: { type: 'string' } },
  { name: 'message', description: 'A note on the deployment', schema: { type: 'string', maxLength: maxMessageLength } },
  { name: 'provenance', description: `Where the archive comes from: JSON as the schema Provenance, at most ${maxProvenanceBytes} bytes`, schema: { type: 'string' } }
]

type Marked = { success: true; deployment: unknown }
type Cancelled = Marked & { message: string }
interface RolledBack { success: boolean; deployId: string; status: FinalStatus; duration: string | null; error?: string | null }

export const deploymentOperations: Operations = {
  'POST /api/deploy/upload': {
    summary: 'Deploy an archive',
    description: 'The answer begins when the deployment is recorded. A client that stops reading does not stop the deployment.',
    form: parts,
    answers: run,
    errors: [...uploadErrors, 'invalid_field', 'not_found', 'other_project', 'client_scripts_off', 'queue_full']
  },
  'GET /api/deploy/check': {
    summary: 'Check whether an upload would be accepted',
    description: 'Refuses what the upload would be refused with, so that a client can ask before it packs.',
    parameters: [
      query('projectId', 'The project to deploy to', { type: 'string' }, true), query('scripts', 'The scripts that would be sent: preDeploy, postDeploy, separated by commas')
    ],
    answers: answer('The limits of the upload', uploadPermit),
    errors: ['invalid_field', 'no_such_project', 'other_project', 'client_scripts_off', 'deploy_token_needed', 'home_full', 'project_quota', 'disk_full', 'shutting_down']
  },
  'POST /api/deployments/:id/rollback': {
    summary: 'Deploy the archive of an earlier deployment again',
    description: 'With `Accept: application/x-ndjson` the answer is the output as it is written, as that of an upload.',
    body: rollbackFields,
    isBodyOptional: true,
    answers: {
      200: {
        what: 'The result', headers: runHeaders,
        json: record<RolledBack>({
          success: boolean(true), deployId: text('dep_1a2b3c4d5e6f7a8b'), status: oneOf(['success', 'failed']), duration: nullable(text('0.8s')),
          error: optional(nullable(text('The post-deploy script failed')))
        }) as never
      }
    },
    errors: ['not_found', 'no_archive', 'not_finished', 'queue_full', 'disk_full', 'shutting_down']
  },
  'POST /api/deployments/:id/cancel': {
    summary: 'Cancel a queued or running deployment',
    answers: answer('The record', record<Cancelled>({ success, message: text('The deployment was cancelled'), deployment: deployment as never })),
    errors: ['not_found', 'already_finished', 'other_project']
  },
  'PATCH /api/deployments/:id/status': {
    summary: 'Correct the status of a finished deployment',
    body: markFields,
    answers: answer('The record', record<Marked>({ success, deployment: deployment as never })),
    errors: ['not_found', 'not_finished']
  },
  'GET /api/deployments/:id/files': {
    summary: 'List the files that a deployment put in place',
    answers: answer('The files', list(manifestFile)),
    errors: ['not_found', 'no_manifest', 'torn_manifest', 'other_project']
  },
  'GET /api/deployments/:id/changes': {
    summary: 'Compare the files of two deployments',
    parameters: [query('against', 'The other deployment', { type: 'string' }, true)],
    answers: answer('What differs', changes),
    errors: ['not_found', 'no_manifest', 'torn_manifest', 'other_project', 'invalid_field']
  },
  'GET /api/logs': {
    summary: 'List deployments, newest first',
    description: 'A deploy token sees the deployments of its project.',
    parameters: [
      query('projectId', 'Only deployments of this project'),
      query('branch', 'Only deployments of this branch or tag, as their clients claim'),
      query('commit', 'Only deployments of a commit that begins with these digits, at least 4'),
      query('newest', 'Only the newest deployment of each project', switchSchema),
      query('status', 'Only deployments with this status', { type: 'string', enum: ['queued', 'running', 'success', 'failed'] }),
      query('before', 'Only deployments older than this one'),
      query('output', '"end" (default): the last 4 KiB of each output; "none": without output', { type: 'string', enum: ['end', 'none'] }),
      limitOf(100, 500)
    ],
    answers: answer('The deployments', list(deployment), { 'X-Total-Count': 'The number of deployments that the filters select.' }),
    errors: ['invalid_field', 'not_found', 'other_project']
  },
  'GET /api/logs/:deployId': {
    summary: 'Get a deployment',
    parameters: [
      query('output', '"whole" (default): the last 1 MiB of the output; "end": the last 4 KiB', { type: 'string', enum: ['whole', 'end'] }), timestamps
    ],
    answers: answer('The deployment', deployment),
    errors: ['not_found', 'other_project', 'invalid_field']
  },
  'GET /api/logs/:deployId/stream': {
    summary: 'Follow the output of a deployment',
    description: 'Server-sent events `log` and, at the end, `status`. `Last-Event-ID` continues after an interruption.',
    parameters: [{ in: 'header', name: 'Last-Event-ID', description: 'The id of the last event that the client has read', schema: { type: 'string' } }],
    answers: media('The events', 'text/event-stream', 'event: log\nid: 128\ndata: {"data":"→ Extracting 12 files","at":"2030-01-02T03:04:05.678Z"}\n\n'),
    errors: ['not_found', 'other_project']
  },
  'GET /api/logs/:deployId/output': {
    summary: 'Download the output of a deployment, or a part of it',
    parameters: [
      timestamps,
      query('from', 'The byte at which the part begins', { type: 'integer', minimum: 0 }),
      query('before', 'The byte before which the part ends', { type: 'integer', minimum: 0 }),
      query('bytes', 'Maximum size of the part; larger values become 1048576. Default: 262144', { type: 'integer', minimum: 1 })
    ],
    answers: media('The output', 'text/plain', '→ Extracting 12 files\n', {
      'X-Svc-Output-From': 'Of a part: the byte at which it begins.', 'X-Svc-Output-To': 'Of a part: the byte after its last one.'
    }),
    errors: ['not_found', 'other_project', 'invalid_field']
  }
}
