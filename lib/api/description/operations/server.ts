import { newTargetFields, targetFields } from '../../notification-targets.js'
import { cleanFields } from '../../storage.js'
import { reportFields } from '../../telemetry.js'
import type { AuditEntry } from '../../../model/audit.js'
import type { Cleaned } from '../../../model/storage.js'
import { notificationKinds, type NotificationKind, type NotificationTargetView } from '../../../model/notification-target.js'
import type { Pm2App } from '../../../model/pm2.js'
import type { SettingDescription } from '../../../model/setting.js'
import type { TerminalAvailability } from '../../../model/terminal.js'
import { any, anything, answer, daysOf, ifMatch, ifUpdatedAt, limitOf, media, query, type Operations } from '../operation.js'
import {
  auditEntry, changeVersions, cleaned, done, durations, healthDetail, healthReport, heatmap, machineHistory, notificationTarget, overview, placeHome, placeListing, pm2App, pm2Binding, resources, searchResult,
  serverStatus, settingDescription, settingValues, storageUsage, success, successRates, telemetryOverview
} from '../records.js'
import { boolean, integer, list, nullable, oneOf, optional, record, text, type Schema } from '../schema.js'

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

const testAnswer = answer('The result', record<TestAnswer>({
  success: boolean(true), statusCode: nullable(integer(200)), durationMs: integer(48), attempts: integer(1), error: optional(text('answered 500'))
}))
const oneTarget = answer('The target', record<{ success: true; target: NotificationTargetView }>({ success, target: notificationTarget }))

export const serverOperations: Operations = {
  'GET /api/health': {
    summary: 'Get the health of the server',
    answers: {
      ...answer('The server works', healthReport),
      503: { what: 'The server is starting, or does not work', json: any(healthReport), headers: { 'Retry-After': 'While it is starting: seconds.' } }
    }
  },
  'GET /api/health/detail': {
    summary: 'Get the health of the server in detail',
    answers: { ...answer('The server works', healthDetail), 503: { what: 'The server does not work', json: any(healthDetail) } }
  },
  'GET /api/openapi.json': { summary: 'Get this document', answers: answer('The document', anything) },
  'GET /api/changes': {
    summary: 'Get a version of each list',
    description: 'A list whose version is the same has not changed. With `If-None-Match` the answer is 304 until any of them changes.',
    answers: answer('The versions', changeVersions)
  },
  'GET /api/overview': {
    summary: 'Get what the first page of the panel shows',
    parameters: [query('days', 'Adds the results of so many days, at most 366', { type: 'integer', minimum: 1 })],
    answers: answer('The overview', overview),
    errors: ['invalid_field']
  },
  'GET /api/settings': { summary: 'Get all settings', answers: answer('The values by key', settingValues, { ETag: 'The state of the settings.' }) },
  'GET /api/settings/schema': {
    summary: 'Describe the settings',
    answers: answer('The settings', record<{ settings: SettingDescription[] }>({ settings: list(settingDescription) }))
  },
  'PUT /api/settings': {
    summary: 'Change settings',
    description: 'Keys that are absent keep their values. Either all are changed or none is.',
    parameters: [ifMatch('The ETag of `GET /api/settings`')],
    jsonBody: any(settingValues),
    answers: answer('The settings were saved', done),
    errors: ['changed_since', 'unknown_setting', 'invalid_setting', 'shuts_out_yourself']
  },
  'GET /api/settings/status': { summary: 'Get the version of the server and its counts', answers: answer('The status', serverStatus) },
  'POST /api/settings/webhook-test': {
    summary: 'Send a test message to webhook_url',
    answers: testAnswer,
    errors: ['no_webhook']
  },
  'GET /api/notification-targets': {
    summary: 'List notification targets',
    description: 'Without secrets and without the paths of addresses. The target of the settings webhook_… comes first.',
    answers: answer('The targets, and the kind that each domain suggests', record<TargetList>({
      items: list(notificationTarget), domains: list(record<TargetList['domains'][number]>({ domain: text('hooks.slack.com'), kind: oneOf(notificationKinds, 'slack') }))
    }))
  },
  'POST /api/notification-targets': {
    summary: 'Create a notification target', body: newTargetFields, answers: oneTarget, errors: ['too_many_targets', 'not_found']
  },
  'PUT /api/notification-targets/:id': {
    summary: 'Change a notification target',
    description: 'Fields that are absent keep their values. An empty `secret` removes it.',
    parameters: [ifUpdatedAt],
    body: targetFields,
    answers: oneTarget,
    errors: ['not_found', 'changed_since', 'settings_target']
  },
  'DELETE /api/notification-targets/:id': {
    summary: 'Delete a notification target', answers: answer('The target was deleted', done), errors: ['not_found', 'settings_target']
  },
  'POST /api/notification-targets/:id/test': { summary: 'Send a test message to a target', answers: testAnswer, errors: ['not_found', 'no_webhook'] },
  'GET /metrics': {
    summary: 'Get metrics for Prometheus',
    answers: media('The metrics, in version 0.0.4 of the text format', 'text/plain', '# TYPE svc_up gauge\nsvc_up 1\n')
  },
  'GET /api/system/history': {
    summary: 'Get a day of the machine and of deployments',
    parameters: [query('step', 'Minutes that a row covers; larger values become 60. Default: 1', { type: 'integer', minimum: 1 })],
    answers: answer('The rows; minutes in which the server did not run are missing', machineHistory),
    errors: ['invalid_field']
  },
  'GET /api/audit': {
    summary: 'List the audit log, newest first',
    parameters: [
      query('action', 'Only entries of this action'), query('projectId', 'Only entries of this project'), query('before', 'Only entries older than this one'),
      limitOf(100, 500)
    ],
    answers: answer('The entries', record<{ items: AuditEntry[] }>({ items: list(auditEntry) })),
    errors: ['invalid_field']
  },
  'GET /api/storage': { summary: 'Get the disk space that svc and the targets use', answers: answer('The usage', storageUsage) },
  'POST /api/storage/clean': {
    summary: 'Remove archives past the retention, and files without a record',
    body: cleanFields,
    answers: answer('The removed files', record<CleanAnswer>({ success, ...cleaned })),
    errors: ['not_found']
  },
  'GET /api/system/resources': { summary: 'Get what the machine and the server use', answers: answer('The resources', resources) },
  'GET /api/pm2/available': { summary: 'Check whether PM2 runs', answers: answer('Whether it runs', record<{ available: boolean }>({ available: boolean(true) })) },
  'GET /api/pm2/apps': { summary: 'List PM2 applications', answers: answer('The applications', record<{ apps: Pm2App[] }>({ apps: list(pm2App) })) },
  'GET /api/projects/:id/pm2': {
    summary: 'Get the PM2 application of a project', answers: answer('The application', pm2Binding as Schema<unknown>), errors: ['not_found']
  },
  'GET /api/stats/heatmap': { summary: 'Count the deployments of each day', parameters: [daysOf(365)], answers: answer('The counts', heatmap), errors: ['invalid_field'] },
  'GET /api/stats/success-rate': {
    summary: 'Get the success rate of each day', parameters: [daysOf(30)], answers: answer('The rates', successRates), errors: ['invalid_field']
  },
  'GET /api/stats/durations': {
    summary: 'Get the durations of the steps',
    parameters: [daysOf(30), query('projectId', 'Only deployments of this project')],
    answers: answer('The durations', durations),
    errors: ['invalid_field', 'not_found']
  },
  'GET /api/search': {
    summary: 'Search projects, deployments, log sources, the audit log and settings',
    parameters: [query('q', 'The text to find, at most 200 characters'), query('types', 'Only these types, separated by commas'), limitOf(5, 50)],
    answers: answer('The items by type', searchResult),
    errors: ['invalid_field']
  },
  'GET /api/fs/home': { summary: 'Get the directories at which choosing a path begins', answers: answer('The directories', placeHome) },
  'GET /api/fs/list': {
    summary: 'List a directory of the server',
    parameters: [
      query('path', 'An absolute path', { type: 'string' }, true),
      query('include', 'What to list. Default: "both"', { type: 'string', enum: ['dirs', 'files', 'both'] })
    ],
    answers: answer('The entries, directories first', placeListing),
    errors: ['invalid_field', 'invalid_path', 'forbidden_path']
  },
  'POST /api/public/telemetry/report': {
    summary: 'Report a start or a push to a collector',
    body: reportFields,
    answers: answer('The report was counted', record<{ success: true }>({ success })),
    errors: ['rate_limited']
  },
  'GET /api/public/telemetry/overview': {
    summary: 'Get the counts of a collector', parameters: [daysOf(30)], answers: answer('The counts', telemetryOverview), errors: ['rate_limited', 'invalid_field']
  },
  'GET /api/terminal/available': {
    summary: 'Check whether a terminal can be opened',
    answers: answer('Whether it can', record<TerminalAvailability>({
      available: boolean(true), reason: optional(text('node-pty is not installed')), code: optional(text('terminal_unavailable'))
    }))
  },
  'GET /api/terminal/ws': {
    summary: 'Open a terminal',
    description: 'A WebSocket (RFC 6455). docs/api.md describes its messages.',
    parameters: [
      query('ticket', 'A ticket for "terminal"'), query('cols', 'Columns', { type: 'integer', minimum: 1, maximum: 1000 }),
      query('rows', 'Rows', { type: 'integer', minimum: 1, maximum: 1000 }), query('projectId', 'The project in whose target the shell begins'),
      query('sessionId', 'The session to continue'), query('from', 'The position in its output', { type: 'integer', minimum: 0 })
    ],
    answers: { 101: { what: 'The connection is a WebSocket' } },
    errors: ['invalid_field', 'not_found', 'upgrade_required', 'invalid_handshake', 'terminal_disabled', 'terminal_unavailable', 'websocket_unavailable', 'stopping', 'foreign_origin']
  }
}
