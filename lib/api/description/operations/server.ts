import { newTargetFields, targetFields } from '../../notification-targets.js'
import { rekeyFields } from '../../cluster.js'
import { cleanFields } from '../../storage.js'
import { reportFields } from '../../telemetry.js'
import type { AuditEntry, RotatedKey } from '../../../model/audit.js'
import type { Cleaned } from '../../../model/storage.js'
import {
  notificationKinds,
  type NotificationKind,
  type NotificationTargetView
} from '../../../model/notification-target.js'
import type { ClusterStatus } from '../../../model/cluster.js'
import type { SettingDescription } from '../../../model/setting.js'
import type { TerminalAvailability } from '../../../model/terminal.js'
import {
  any,
  anything,
  answer,
  daysOf,
  fieldsOf,
  ifMatch,
  ifUpdatedAt,
  limitOf,
  media,
  query,
  requiredQuery,
  type Operations,
  type Parameter
} from '../operation.js'
import { auditCheckpoint, auditEntry, consistencyProof, inclusionProof, verifierKey } from '../records/access.js'
import { done, success } from '../records/common.js'
import {
  healthDetail,
  healthReport,
  machineHistory,
  pm2Apps,
  pm2Availability,
  pm2Binding,
  resources,
  serverStatus,
  clusterStatus
} from '../records/machine.js'
import { notificationTarget } from '../records/notify.js'
import { changeVersions, durations, heatmap, overview, successRates } from '../records/overview.js'
import { searchResult } from '../records/search.js'
import { settingDescription, settingValues } from '../records/settings.js'
import { cleaned, placeHome, placeListing, storageUsage } from '../records/storage.js'
import { telemetryOverview } from '../records/telemetry.js'
import { boolean, constant, integer, list, nullable, oneOf, optional, record, text, type Schema } from '../schema.js'

interface CleanAnswer extends Pick<Cleaned, 'dryRun' | 'unrecordedLeft' | 'freedBytes'> {
  success: true
  removed: Pick<Cleaned, 'archives' | 'temporaryFiles' | 'unrecordedFiles'>
}
interface TargetList {
  items: NotificationTargetView[]
  domains: Array<{ domain: string; kind: NotificationKind }>
}

interface TestAnswer {
  success: boolean
  statusCode: number | null
  durationMs: number
  attempts: number
  error?: string
}

const testAnswer = answer(
  'The result of the delivery',
  record<TestAnswer>({
    success: boolean(true),
    statusCode: nullable(integer(200)),
    durationMs: integer(48),
    attempts: integer(1),
    error: optional(text('answered 500'))
  })
)
const oneTarget = answer(
  'The notification target',
  record<{ success: true; target: NotificationTargetView }>({ success, target: notificationTarget })
)

const targetDescriptions = {
  ...fieldsOf(notificationTarget),
  kind: 'The format of messages. Default: the kind that the address suggests',
  url: 'The address to send messages to. It may contain secrets, and responses do not contain it',
  secret: 'Secret for signing messages. Empty means none',
  events: 'The events to notify about',
  enabled: 'Whether messages are sent'
}

/** The query of a terminal. */
export const terminalParameters: Parameter[] = [
  query('ticket', 'A ticket with the purpose "terminal"'),
  query('cols', 'Width of the terminal in columns', { type: 'integer', minimum: 1, maximum: 1000 }),
  query('rows', 'Height of the terminal in rows', { type: 'integer', minimum: 1, maximum: 1000 }),
  query('projectId', 'The id of the project in whose target the shell starts'),
  query('sessionId', 'The id of a terminal session to continue'),
  query('from', 'Position in the output of the session at which to continue, in bytes', {
    type: 'integer',
    minimum: 0
  })
]

/** Health, settings, notifications, statistics, storage, PM2, search, telemetry and the terminal. */
export const serverOperations: Operations = {
  'GET /api/health': {
    summary: 'Get the health of the server',
    parameters: [
      query('check', '`leader`: a hub that is cut off from its cluster answers 503', {
        type: 'string',
        enum: ['leader']
      })
    ],
    answers: {
      ...answer('The server is healthy, or a hub that is cut off', healthReport),
      503: {
        what: 'The server is starting or unhealthy',
        json: any(healthReport),
        headers: { 'Retry-After': 'Seconds to wait before the next request. Not sent if the server is unhealthy.' }
      }
    }
  },
  'GET /api/health/detail': {
    summary: 'Get the health of the server in detail',
    answers: {
      ...answer('The server is healthy', healthDetail),
      503: { what: 'The server is unhealthy', json: any(healthDetail) }
    }
  },
  'GET /api/openapi.json': {
    summary: 'Get the OpenAPI document of this API',
    answers: answer('The document', anything)
  },
  'GET /api/changes': {
    summary: 'Get the version of each list',
    description:
      'If the version of a list is the same as before, the list has not changed. With `If-None-Match`, the response is 304 until any version changes.',
    answers: answer('The versions', changeVersions)
  },
  'GET /api/overview': {
    summary: 'Get the overview of the server',
    parameters: [
      query('days', 'Number of days to return results for. Values above 366 are lowered to 366. Default: none', {
        type: 'integer',
        minimum: 1
      })
    ],
    answers: answer('The overview', overview),
    errors: ['invalid_field']
  },
  'GET /api/settings': {
    summary: 'Get all settings',
    answers: answer('The values by key', settingValues, { ETag: 'The state of the settings, for `If-Match`.' })
  },
  'GET /api/settings/schema': {
    summary: 'Describe the settings',
    answers: answer(
      'The descriptions',
      record<{ settings: SettingDescription[] }>({ settings: list(settingDescription) })
    )
  },
  'PUT /api/settings': {
    summary: 'Change settings',
    description: 'Keys that are absent keep their values. If one value is invalid, no setting is changed.',
    parameters: [ifMatch('The ETag of `GET /api/settings`')],
    jsonBody: any(settingValues),
    answers: answer('The settings were saved', done),
    errors: ['changed_since', 'unknown_setting', 'invalid_setting', 'shuts_out_yourself']
  },
  'GET /api/settings/status': {
    summary: 'Get the version and the counts of the server',
    answers: answer('The status', serverStatus)
  },
  'POST /api/settings/webhook-test': {
    summary: 'Send a test message to the webhook_url of the settings',
    answers: testAnswer,
    errors: ['no_webhook']
  },
  'GET /api/notification-targets': {
    summary: 'List notification targets',
    description:
      'The response contains no secrets, and addresses without their paths. The target that is configured in the settings comes first.',
    answers: answer(
      'The targets, and the kind to suggest for each domain',
      record<TargetList>({
        items: list(notificationTarget),
        domains: list(
          record<TargetList['domains'][number]>({
            domain: text('hooks.slack.com'),
            kind: oneOf(notificationKinds, 'slack')
          })
        )
      })
    )
  },
  'POST /api/notification-targets': {
    summary: 'Create a notification target',
    body: newTargetFields,
    fields: targetDescriptions,
    answers: oneTarget,
    errors: ['too_many_targets', 'not_found']
  },
  'PUT /api/notification-targets/:id': {
    summary: 'Change a notification target',
    description: 'Fields that are absent keep their values. An empty `secret` removes the secret.',
    parameters: [ifUpdatedAt],
    body: targetFields,
    fields: targetDescriptions,
    answers: oneTarget,
    errors: ['not_found', 'changed_since', 'settings_target']
  },
  'DELETE /api/notification-targets/:id': {
    summary: 'Delete a notification target',
    answers: answer('The notification target was deleted', done),
    errors: ['not_found', 'settings_target']
  },
  'POST /api/notification-targets/:id/test': {
    summary: 'Send a test message to a notification target',
    answers: testAnswer,
    errors: ['not_found', 'no_webhook']
  },
  'GET /metrics': {
    summary: 'Get metrics for Prometheus',
    answers: media('The metrics in version 0.0.4 of the Prometheus text format', 'text/plain', {
      example: '# TYPE svc_up gauge\nsvc_up 1\n'
    })
  },
  'GET /api/system/history': {
    summary: 'Get machine usage and deployments of the last 24 hours',
    parameters: [
      query('step', 'Minutes per row. Default: 1. Values above 60 are lowered to 60', { type: 'integer', minimum: 1 })
    ],
    answers: answer('The rows. Minutes in which the server did not run are missing', machineHistory),
    errors: ['invalid_field']
  },
  'GET /api/audit': {
    summary: 'List the audit log, newest first',
    parameters: [
      query('action', 'Only entries with this action'),
      query('tokenId', 'Only entries of this named token'),
      query('tokenName', 'Only entries of named tokens that had this name'),
      query('projectId', 'Only entries of this project'),
      query('before', 'Id of an entry. Lists only older ones'),
      limitOf(100, 500)
    ],
    answers: answer('The entries', record<{ items: AuditEntry[] }>({ items: list(auditEntry) })),
    errors: ['invalid_field']
  },
  'GET /api/audit/checkpoint': {
    summary: 'Get a signed checkpoint of the audit log',
    description:
      'A checkpoint covers all entries. Keep it elsewhere: later it proves that the log still begins with these entries. Every valid token may read it.',
    answers: answer('The checkpoint', auditCheckpoint),
    errors: ['not_found', 'server_key']
  },
  'GET /api/audit/proof': {
    summary: 'Prove that the audit log begins with an earlier state',
    parameters: [
      requiredQuery('from', 'Size of the earlier tree', { type: 'integer', minimum: 0 }),
      query('to', 'Size of the later tree. Default: all entries', { type: 'integer', minimum: 0 })
    ],
    answers: answer('The consistency proof', consistencyProof),
    errors: ['invalid_field', 'history_gone']
  },
  'GET /api/audit/inclusion': {
    summary: 'Prove that an entry is in the audit log',
    parameters: [requiredQuery('id', 'Id of the entry')],
    answers: answer('The inclusion proof', inclusionProof),
    errors: ['invalid_field', 'not_found', 'not_sealed', 'history_gone', 'server_key']
  },
  'POST /api/audit/key': {
    summary: 'Replace the key that signs checkpoints of the audit log',
    description:
      'Requests must come through the Unix socket in the data directory. `svc keys rotate` uses this route. The old key signs further checkpoints, too, so that witnesses learn the new one.',
    answers: answer(
      'The keys before and after',
      record<{ success: true } & RotatedKey>({ success, before: verifierKey, after: verifierKey })
    ),
    errors: ['server_key']
  },
  'GET /api/audit/export': {
    summary: 'Export the audit log with what proves it',
    description:
      'The answer is JSON lines: the entries, the hashes of those that were removed or not asked for, and a checkpoint at the end that signs all lines. `svc audit verify` verifies it without a server.',
    parameters: [
      query('from', 'Number of the first entry. Default: 1', { type: 'integer', minimum: 1 }),
      query('to', 'Number of the last entry. Default: the newest', { type: 'integer', minimum: 1 })
    ],
    answers: media('The export', 'application/x-ndjson', {
      example: '{"svcAudit":2,"key":"svc/9f2c4b1a7d3e5f60/audit+1c2d3e4f+AR…"}\n'
    }),
    errors: ['invalid_field', 'not_found', 'changed_meanwhile', 'server_key']
  },
  'GET /api/storage': {
    summary: 'Get the disk usage of svc and of the targets',
    answers: answer('The usage', storageUsage)
  },
  'POST /api/storage/clean': {
    summary: 'Remove old archives, temporary files and files without a record',
    body: cleanFields,
    fields: {
      dryRun: 'Whether to only report what would be removed. Default: false',
      unrecorded: 'Whether to remove files of deployments without a record. Default: false',
      projectId: 'Removes only archives of this project',
      keep: 'Number of successful archives to keep per project, instead of the setting keep_archives'
    },
    answers: answer('The removed files', record<CleanAnswer>({ success, ...cleaned })),
    errors: ['not_found']
  },
  'GET /api/system/resources': {
    summary: 'Get the current resource usage of the machine and the server',
    answers: answer('The resources', resources)
  },
  'GET /api/cluster': {
    summary: 'Get the state of the cluster, as this hub sees it',
    description: 'A server that is not a hub of a cluster answers null.',
    answers: answer(
      'The cluster',
      record<{ success: true; cluster: ClusterStatus | null }>({
        success: constant(true),
        cluster: nullable(clusterStatus)
      })
    )
  },
  'POST /api/cluster/key': {
    summary: 'Replace the key of the cluster',
    description:
      'Requests must come through the Unix socket in the data directory of the hub that leads. `svc cluster rekey` uses this route. Each hub gets the new key before it is used; if one does not take it, nothing has changed.',
    body: rekeyFields,
    fields: { hubs: 'The hubs that get the key: all that `GET /api/cluster` lists' },
    answers: answer(
      'The names of the hubs',
      record<{ success: true; hubs: string[] }>({ success, hubs: list(text('h1')) })
    ),
    errors: ['no_cluster', 'hubs_changed', 'hub_without_key', 'write_unknown']
  },
  'GET /api/pm2/available': {
    summary: 'Check whether PM2 is available',
    answers: answer('Whether PM2 is available, or why not', pm2Availability)
  },
  'GET /api/pm2/apps': {
    summary: 'List PM2 applications',
    answers: answer('The applications', pm2Apps)
  },
  'GET /api/projects/:id/pm2': {
    summary: 'Get the PM2 application of a project',
    answers: answer('The application', pm2Binding as Schema<unknown>),
    errors: ['not_found']
  },
  'GET /api/stats/heatmap': {
    summary: 'Get the number of deployments per day',
    parameters: [daysOf(365)],
    answers: answer('The counts', heatmap),
    errors: ['invalid_field']
  },
  'GET /api/stats/success-rate': {
    summary: 'Get the success rate per day',
    parameters: [daysOf(30)],
    answers: answer('The rates', successRates),
    errors: ['invalid_field']
  },
  'GET /api/stats/durations': {
    summary: 'Get the durations of deployment steps',
    parameters: [daysOf(30), query('projectId', 'Only deployments of this project')],
    answers: answer('The durations', durations),
    errors: ['invalid_field', 'not_found']
  },
  'GET /api/search': {
    summary: 'Search projects, deployments, log sources, the audit log and settings',
    parameters: [
      query('q', 'Text to find, at most 200 characters'),
      query('types', 'Types of items to search, separated by commas. Default: all types'),
      limitOf(5, 50)
    ],
    answers: answer('The matching items, grouped by type', searchResult),
    errors: ['invalid_field']
  },
  'GET /api/fs/home': {
    summary: 'Get start directories for choosing a path on the server',
    answers: answer('The directories', placeHome)
  },
  'GET /api/fs/list': {
    summary: 'List a directory of the server',
    parameters: [
      requiredQuery('path', 'An absolute path'),
      query('include', 'Whether to list directories, files or both. Default: "both"', {
        type: 'string',
        enum: ['dirs', 'files', 'both']
      })
    ],
    answers: answer('The entries, directories first', placeListing),
    errors: ['invalid_field', 'invalid_path', 'forbidden_path']
  },
  'POST /api/public/telemetry/report': {
    summary: 'Send a telemetry report',
    body: reportFields,
    fields: {
      event: 'The event to count',
      ts: 'Time of the event',
      svcVersion: 'Version of the program',
      instanceId: 'Random id of the installation',
      os: 'Operating system',
      arch: 'Processor architecture'
    },
    answers: answer('The report was accepted', record<{ success: true }>({ success })),
    errors: ['rate_limited']
  },
  'GET /api/public/telemetry/overview': {
    summary: 'Get the counts of received telemetry reports',
    parameters: [daysOf(30)],
    answers: answer('The counts', telemetryOverview),
    errors: ['rate_limited', 'invalid_field']
  },
  'GET /api/terminal/available': {
    summary: 'Check whether a terminal can be opened',
    answers: answer(
      'Whether a terminal can be opened, and the reason if not',
      record<TerminalAvailability>({
        available: boolean(true),
        reason: optional(text('node-pty is not installed')),
        code: optional(text('terminal_unavailable'))
      })
    )
  },
  'GET /api/terminal/ws': {
    summary: 'Open a terminal',
    description: 'Opens a WebSocket (RFC 6455). docs/streams.md describes its messages.',
    parameters: terminalParameters,
    answers: { 101: { what: 'The connection is switched to the WebSocket protocol' } },
    errors: [
      'invalid_field',
      'not_found',
      'upgrade_required',
      'invalid_handshake',
      'terminal_disabled',
      'terminal_unavailable',
      'websocket_unavailable',
      'stopping',
      'foreign_origin'
    ]
  }
}
