import { readFile } from 'node:fs/promises'
import { type BodyLimits, json, publicBody, streamedBody } from '../http/core/route.js'
import { relayPartBytes } from '../model/fleet-wire.js'
import { changeTopics } from '../model/health.js'
import { fleetLimits } from '../model/node.js'
import { probeRow } from './probe.js'
import { showsOutput } from './records.js'
import {
  type ApiRoute,
  byLeader,
  byLeaderIfAny,
  completed,
  crossOrigin,
  depending,
  later,
  onTarget,
  relayed,
  repeating,
  row,
  taking,
  withTrial
} from './route.js'
import type { ApiServices } from './services.js'

/** A project's record contains its labels and the status of its newest deployment. */
const projectTables = ['projects', 'projectTags', 'categories', 'tags', 'deployments'] as const

/** The tables of all lists whose versions `GET /api/changes` answers. */
const changeTables = [...new Set(Object.values(changeTopics).flat())]

/** Limits of the body of a telemetry report. */
const reportBody: BodyLimits = { ...publicBody, maxBytes: 1024 }
/** Limits of what nodes send: wanted parts of an archive, reports, and parts of an answer. */
const rangesLimits: BodyLimits = { maxBytes: 512 * 1024, totalMs: 60_000 }
const reportLimits: BodyLimits = { maxBytes: fleetLimits.reportBytes, totalMs: 60_000 }
const relayPartLimits: BodyLimits = { maxBytes: relayPartBytes, totalMs: 120_000 }

/**
 * The table of routes: method, path, authorization (explained in `access/bearer.ts`), the project that a request concerns
 * (`route.ts`), what it can do (`route.ts`), and handler.
 */
export function apiRoutes(services: ApiServices): ApiRoute[] {
  const auth = later(async () => (await import('./auth.js')).authHandlers(services))
  const whoami = later(async () => (await import('./auth.js')).whoamiHandlers(services))
  const tokens = later(async () => (await import('./auth.js')).tokenHandlers(services))
  const secondFactor = later(async () => (await import('./auth.js')).secondFactorHandlers(services))
  const accessReport = later(async () => (await import('./auth.js')).accessReportHandlers(services))
  const projects = later(async () => (await import('./projects.js')).projectHandlers(services))
  const variables = later(async () => (await import('./projects.js')).variableHandlers(services))
  const files = later(async () => (await import('./files.js')).fileHandlers(services))
  const categories = later(async () => (await import('./projects.js')).labelHandlers('category', services.categories))
  const tags = later(async () => (await import('./projects.js')).labelHandlers('tag', services.tags))
  const uploads = later(async () => (await import('./upload.js')).uploadHandlers(services))
  const pieces = later(async () => (await import('./uploads.js')).pieceHandlers(services))
  const deployCheck = later(async () => (await import('./plan.js')).deployCheckHandlers(services))
  const plans = later(async () => (await import('./plan.js')).planHandlers(services))
  const deployments = later(async () => (await import('./deployments.js')).deploymentHandlers(services))
  const again = later(async () => (await import('./deployments.js')).againHandlers(services))
  const locks = later(async () => (await import('./locks.js')).lockHandlers(services))
  const maintenance = later(async () => (await import('./locks.js')).maintenanceHandlers(services))
  const drift = later(async () => (await import('./files.js')).driftHandlers(services))
  const tree = later(async () => (await import('./files.js')).treeHandlers(services))
  const components = later(async () => (await import('./projects.js')).componentHandlers(services))
  const confirm = later(async () => (await import('./deployments.js')).confirmHandlers(services))
  const approval = later(async () => (await import('./deployments.js')).approvalHandlers(services))
  const receipts = later(async () => (await import('./deployments.js')).receiptHandlers(services))
  const attestations = later(async () => (await import('./settings.js')).attestationHandlers(services))
  const signingKeys = later(async () => (await import('./settings.js')).signingKeyHandlers(services))
  const logs = later(async () => (await import('./logs.js')).logHandlers(services))
  const settings = later(async () => (await import('./settings.js')).settingsHandlers(services))
  const notificationTargets = later(async () => (await import('./settings.js')).notificationTargetHandlers(services))
  const health = later(async () => (await import('./system.js')).healthHandlers(services))
  const audit = later(async () => (await import('./system.js')).auditHandlers(services))
  const storage = later(async () => (await import('./system.js')).storageHandlers(services))
  const cluster = later(async () => (await import('./system.js')).clusterHandlers(services))
  const telemetry = later(async () => (await import('./settings.js')).telemetryHandlers(services))

  const changes = later(async () => (await import('./system.js')).changesHandlers(services))
  const overview = later(async () => (await import('./system.js')).overviewHandlers(services))
  const system = later(async () => (await import('./system.js')).systemHandlers(services))
  const metrics = later(async () => (await import('./system.js')).metricsHandlers(services))
  const pm2 = later(async () => (await import('./system.js')).pm2Handlers(services))
  const stats = later(async () => (await import('./system.js')).statsHandlers(services))
  const search = later(async () => (await import('./system.js')).searchHandlers(services))
  const fs = later(async () => (await import('./files.js')).fsHandlers(services))
  const logSources = later(async () => (await import('./log-sources.js')).logSourceHandlers(services))
  const migration = later(async () => (await import('./transfer.js')).migrationHandlers(services))
  const backup = later(async () => (await import('./transfer.js')).backupHandlers(services))

  const client = later(async () => (await import('./client.js')).clientHandlers(services))
  const terminal = later(async () => (await import('./terminal.js')).terminalHandlers(services))
  const nodes = later(async () => (await import('./fleet.js')).nodeHandlers(services))
  const enrollments = later(async () => (await import('./fleet.js')).enrollmentHandlers(services))
  const placements = later(async () => (await import('./fleet.js')).placementHandlers(services))
  const rollouts = later(async () => (await import('./fleet.js')).rolloutHandlers(services))
  const agent = later(async () => (await import('./agent.js')).agentHandlers(services))
  const relays = later(async () => (await import('./agent.js')).relayHandlers(services, () => routes))

  let description: object | undefined
  const describe = async (): Promise<object> =>
    JSON.parse(await readFile(new URL('./openapi.json', import.meta.url), 'utf8')) as object

  const routes: ApiRoute[] = completed(
    [
      probeRow(services.health),
      relayed(row('GET', '/api/health/detail', 'viewer', 'server', 'reads', health.detail)),

      row('POST', '/api/auth/login', 'public', 'none', 'signs', auth.login),
      row('POST', '/api/auth/local', 'local', 'none', 'signs', auth.loginHere),
      row('GET', '/api/auth/whoami', 'token', 'none', 'reads', whoami.whoami),
      row('GET', '/api/auth/session', 'viewer', 'none', 'reads', auth.session),
      row('DELETE', '/api/auth/session', 'viewer', 'none', 'signs', auth.signOut),
      row('POST', '/api/auth/prove', 'viewer', 'none', 'signs', auth.prove),
      row('POST', '/api/auth/second-factor', 'viewer', 'none', 'rights', secondFactor.begin),
      row('POST', '/api/auth/second-factor/confirm', 'viewer', 'none', 'rights', secondFactor.confirm),
      row('DELETE', '/api/auth/second-factor', 'viewer', 'none', 'signs', secondFactor.remove),
      byLeaderIfAny(row('GET', '/api/sessions', 'admin', 'server', 'reads', auth.list)),
      row('DELETE', '/api/sessions/:id', 'admin', 'server', 'rights', auth.revoke),
      row('POST', '/api/auth/reset', 'local', 'none', 'rights', auth.resetToken),
      row('POST', '/api/tickets', 'viewer', 'none', 'depends', auth.ticket),

      row('GET', '/api/tokens', 'admin', 'server', 'reads', tokens.list),
      row('POST', '/api/tokens', 'admin', 'server', 'rights', tokens.create),
      row('DELETE', '/api/tokens/:id/second-factor', 'admin', 'server', 'rights', secondFactor.reset),
      row('GET', '/api/tokens/self', 'token', 'none', 'reads', tokens.self),
      row('PATCH', '/api/tokens/:id', 'admin', 'server', 'rights', tokens.update),
      row('POST', '/api/tokens/:id/rotate', 'admin', 'server', 'rights', tokens.rotate),
      row('DELETE', '/api/tokens/:id', 'admin', 'server', 'rights', tokens.revoke),
      row('GET', '/api/signing-keys', 'admin', 'server', 'reads', signingKeys.list),
      row('POST', '/api/signing-keys', 'admin', 'server', 'rights', signingKeys.trust),
      row('POST', '/api/signing-keys/:id/revoke', 'admin', 'server', 'rights', signingKeys.revoke),
      row('GET', '/api/access/report', 'admin', 'server', 'reads', accessReport.read),

      relayed(depending(projectTables, row('GET', '/api/projects', 'viewer', 'filtered', 'depends', projects.list))),
      row('GET', '/api/families', 'viewer', 'filtered', 'reads', overview.families),
      byLeaderIfAny(row('GET', '/api/components', 'read', 'filtered', 'reads', components.search)),
      row('POST', '/api/projects', 'admin', 'server', 'commands', projects.create),
      row('POST', '/api/projects/bulk', 'admin', 'server', 'depends', projects.bulk),
      relayed(depending(projectTables, row('GET', '/api/projects/:id', 'viewer', 'project', 'depends', projects.get))),
      row('PUT', '/api/projects/:id', 'admin', 'project', 'depends', projects.update),
      row('DELETE', '/api/projects/:id', 'admin', 'project', 'works', projects.remove),
      row('POST', '/api/projects/:id/token', 'admin', 'project', 'secrets', projects.regenerateToken),
      row('PUT', '/api/projects/:id/pin', 'admin', 'project', 'works', projects.pin),
      relayed(row('GET', '/api/projects/:id/overview', 'viewer', 'project', 'reads', overview.readProject)),
      row('GET', '/api/projects/:id/recent-scripts', 'admin', 'project', 'reads', projects.recentScripts),
      row('GET', '/api/projects/:id/variables', 'operator', 'project', 'reads', variables.list),
      row('PUT', '/api/projects/:id/variables', 'admin', 'project', 'commands', variables.replace),
      row('PATCH', '/api/projects/:id/variables', 'admin', 'project', 'commands', variables.change),
      row('PUT', '/api/projects/:id/lock', 'manage', 'project', 'works', locks.lockProject),
      row('DELETE', '/api/projects/:id/lock', 'manage', 'project', 'works', locks.unlockProject),
      relayed(
        depending(
          ['locks', 'projects'],
          row('GET', '/api/projects/:id/maintenance', 'read', 'project', 'reads', maintenance.get)
        )
      ),
      onTarget(row('PUT', '/api/projects/:id/maintenance', 'manage', 'project', 'works', maintenance.set)),
      relayed(byLeader(row('GET', '/api/projects/:id/tree', 'read', 'project', 'reads', tree.summary))),
      onTarget(relayed(byLeader(row('GET', '/api/projects/:id/verify', 'read', 'project', 'reads', tree.verify)))),
      onTarget(relayed(byLeader(row('GET', '/api/projects/:id/drift', 'read', 'project', 'reads', drift.drift)))),
      onTarget(
        relayed(byLeader(row('GET', '/api/projects/:id/drift/file', 'fetch', 'project', 'reads', drift.driftFile)))
      ),
      onTarget(relayed(row('GET', '/api/projects/:id/files', 'operator', 'project', 'reads', files.list))),
      onTarget(relayed(row('GET', '/api/projects/:id/file', 'operator', 'project', 'reads', files.preview))),
      onTarget(
        relayed(row('GET', '/api/projects/:id/download', 'operator_download', 'project', 'reads', files.download))
      ),

      relayed(row('GET', '/api/locks', 'read', 'filtered', 'reads', locks.list)),
      relayed(byLeaderIfAny(row('GET', '/api/marks', 'read', 'filtered', 'reads', locks.marks))),
      row('PUT', '/api/lock', 'operator', 'server', 'works', locks.lockServer),
      row('DELETE', '/api/lock', 'operator', 'server', 'works', locks.unlockServer),

      relayed(
        depending(
          ['categories', 'projects'],
          row('GET', '/api/categories', 'viewer', 'filtered', 'reads', categories.list)
        )
      ),
      row('POST', '/api/categories', 'admin', 'server', 'works', categories.create),
      row('PUT', '/api/categories/:id', 'admin', 'server', 'works', categories.update),
      row('DELETE', '/api/categories/:id', 'admin', 'server', 'works', categories.remove),
      relayed(
        depending(
          ['tags', 'projects', 'projectTags'],
          row('GET', '/api/tags', 'viewer', 'filtered', 'reads', tags.list)
        )
      ),
      row('POST', '/api/tags', 'admin', 'server', 'works', tags.create),
      row('PUT', '/api/tags/:id', 'admin', 'server', 'works', tags.update),
      row('DELETE', '/api/tags/:id', 'admin', 'server', 'works', tags.remove),

      byLeader(row('GET', '/api/deploy/check', 'upload_check', 'given', 'reads', deployCheck.check)),
      byLeader(row('GET', '/api/deploy/base', 'upload_check', 'given', 'reads', deployCheck.base)),
      byLeader(row('POST', '/api/deploy/sums', 'upload_check', 'given', 'reads', deployCheck.sums)),
      taking(streamedBody, row('POST', '/api/deploy/plan', 'upload_check', 'given', 'reads', plans.plan)),
      taking(streamedBody, row('POST', '/api/deploy/upload', 'upload', 'given', 'depends', uploads.upload)),
      row('POST', '/api/uploads', 'piece', 'given', 'works', pieces.begin),
      byLeader(row('GET', '/api/uploads/:id', 'piece', 'given', 'reads', pieces.find)),
      taking(streamedBody, row('PATCH', '/api/uploads/:id', 'piece', 'given', 'works', pieces.append)),
      row('DELETE', '/api/uploads/:id', 'piece', 'given', 'works', pieces.remove),
      row('POST', '/api/deployments/:id/rollback', 'operate', 'deployment', 'depends', again.rollback),
      row('POST', '/api/projects/:id/promote', 'promote', 'project', 'depends', again.promote),
      onTarget(row('POST', '/api/projects/:id/undo', 'operate', 'project', 'depends', again.undo)),
      onTarget(row('POST', '/api/projects/:id/repair', 'operate', 'project', 'depends', again.repair)),
      row('POST', '/api/deployments/:id/cancel', 'own', 'deployment', 'works', deployments.cancel),
      row('POST', '/api/deployments/:id/approve', 'approve', 'deployment', 'commands', approval.approve),
      row('POST', '/api/deployments/:id/reject', 'approve', 'deployment', 'works', approval.reject),
      byLeader(row('GET', '/api/deployments/:id/plan', 'read', 'deployment', 'reads', approval.plan)),
      row('POST', '/api/deployments/:id/confirm', 'own', 'deployment', 'works', confirm.confirm),
      row('POST', '/api/deployments/:id/revert', 'own', 'deployment', 'depends', confirm.revert),
      row('PATCH', '/api/deployments/:id/status', 'operator', 'deployment', 'works', deployments.mark),
      row('DELETE', '/api/deployments/:id/archive', 'admin', 'deployment', 'works', deployments.deleteArchive),
      row('DELETE', '/api/unfinished-targets/:deployId', 'admin', 'server', 'works', deployments.giveUp),
      relayed(
        byLeaderIfAny(row('GET', '/api/deployments/:id/files', 'read', 'deployment', 'reads', deployments.files))
      ),
      byLeaderIfAny(row('GET', '/api/deployments/:id/attestations', 'read', 'deployment', 'reads', attestations.list)),
      byLeaderIfAny(
        row('GET', '/api/deployments/:id/attestations/:name', 'download', 'deployment', 'reads', attestations.get)
      ),
      relayed(
        byLeaderIfAny(row('GET', '/api/deployments/:id/changes', 'read', 'deployment', 'reads', deployments.changes))
      ),
      byLeader(row('GET', '/api/deployments/:id/receipt', 'read', 'deployment', 'reads', receipts.receipt)),
      byLeader(row('GET', '/api/receipts', 'read', 'filtered', 'reads', receipts.list)),

      relayed(
        depending(
          ['deployments', 'settings'],
          row('GET', '/api/logs', 'read', 'filtered', 'reads', logs.list),
          showsOutput
        )
      ),
      relayed(byLeaderIfAny(row('GET', '/api/logs/:deployId', 'read', 'deployment', 'reads', logs.get))),
      relayed(byLeader(row('GET', '/api/logs/:deployId/stream', 'read', 'deployment', 'reads', logs.stream))),
      relayed(byLeaderIfAny(row('GET', '/api/logs/:deployId/output', 'download', 'deployment', 'reads', logs.output))),

      relayed(row('GET', '/api/projects/:id/log-sources', 'viewer', 'project', 'reads', logSources.list)),
      row('POST', '/api/projects/:id/log-sources', 'admin', 'project', 'secrets', logSources.create),
      row('POST', '/api/projects/:id/log-sources/pm2', 'admin', 'project', 'secrets', pm2.addLogs),
      relayed(row('GET', '/api/log-sources', 'viewer', 'filtered', 'reads', logSources.listAll)),
      row('POST', '/api/log-sources/bulk', 'admin', 'server', 'works', logSources.bulk),
      row('PATCH', '/api/log-sources/:sourceId', 'operator', 'logSource', 'works', logSources.update),
      row('DELETE', '/api/log-sources/:sourceId', 'operator', 'logSource', 'works', logSources.remove),
      relayed(row('GET', '/api/log-sources/:sourceId/meta', 'viewer', 'logSource', 'reads', logSources.meta)),
      relayed(row('GET', '/api/log-sources/:sourceId/range', 'viewer', 'logSource', 'reads', logSources.range)),
      relayed(
        row('GET', '/api/log-sources/:sourceId/download', 'viewer_download', 'logSource', 'reads', logSources.download)
      ),
      relayed(row('GET', '/api/log-sources/:sourceId/stream', 'viewer', 'logSource', 'reads', logSources.stream)),
      relayed(row('GET', '/api/log-sources/:sourceId/search', 'viewer', 'logSource', 'reads', logSources.search)),

      byLeaderIfAny(row('GET', '/api/nodes', 'viewer', 'filtered', 'reads', nodes.list)),
      byLeaderIfAny(row('GET', '/api/nodes/:node', 'viewer', 'filtered', 'reads', nodes.get)),
      row('PATCH', '/api/nodes/:node', 'admin', 'server', 'places', nodes.update),
      row('PUT', '/api/nodes/:node/drain', 'operator', 'server', 'works', nodes.drain),
      row('DELETE', '/api/nodes/:node', 'admin', 'server', 'places', nodes.forget),
      byLeader(row('GET', '/api/nodes/:node/at/*path', 'download', 'given', 'depends', relays.read)),
      byLeader(row('GET', '/api/nodes/:node/terminal', 'terminal', 'server', 'commands', relays.terminal)),
      byLeader(row('GET', '/api/enrollments', 'admin', 'server', 'reads', enrollments.list)),
      row('POST', '/api/enrollments', 'admin', 'server', 'places', enrollments.create),
      row('DELETE', '/api/enrollments/:id', 'admin', 'server', 'places', enrollments.revoke),
      byLeaderIfAny(row('GET', '/api/projects/:id/placements', 'viewer', 'project', 'reads', placements.list)),
      row('PATCH', '/api/projects/:id/placements', 'admin', 'project', 'places', placements.change),
      byLeaderIfAny(row('GET', '/api/rollouts', 'read', 'filtered', 'reads', rollouts.list)),
      byLeaderIfAny(row('GET', '/api/rollouts/:rolloutId', 'read', 'rollout', 'reads', rollouts.get)),
      byLeaderIfAny(row('GET', '/api/rollouts/:rolloutId/nodes/:node', 'read', 'rollout', 'reads', rollouts.node)),
      byLeader(row('GET', '/api/rollouts/:rolloutId/events', 'read', 'rollout', 'reads', rollouts.events)),
      row('POST', '/api/rollouts/:rolloutId/halt', 'manage', 'rollout', 'works', rollouts.halt),
      row('POST', '/api/rollouts/:rolloutId/resume', 'manage', 'rollout', 'places', rollouts.resume),
      row('POST', '/api/rollouts/:rolloutId/revert', 'manage', 'rollout', 'places', rollouts.revert),
      row('POST', '/api/rollouts/:rolloutId/approve', 'operate', 'rollout', 'places', rollouts.approve),

      row('GET', '/api/settings', 'admin', 'server', 'depends', settings.read),
      row('GET', '/api/settings/schema', 'admin', 'server', 'reads', settings.schema),
      row('PUT', '/api/settings', 'admin', 'server', 'rights', settings.write),
      row('POST', '/api/settings/token', 'admin', 'server', 'rights', auth.changeToken),
      relayed(row('GET', '/api/settings/status', 'viewer', 'server', 'reads', settings.status)),
      row('POST', '/api/settings/webhook-test', 'admin', 'server', 'works', settings.testWebhook),
      row('GET', '/api/notification-targets', 'admin', 'server', 'reads', notificationTargets.list),
      row('POST', '/api/notification-targets', 'admin', 'server', 'rights', notificationTargets.create),
      row('PUT', '/api/notification-targets/:id', 'admin', 'server', 'rights', notificationTargets.update),
      row('DELETE', '/api/notification-targets/:id', 'admin', 'server', 'rights', notificationTargets.remove),
      row('POST', '/api/notification-targets/:id/test', 'admin', 'server', 'works', notificationTargets.test),

      depending(['audit'], row('GET', '/api/audit', 'viewer', 'filtered', 'reads', audit.list)),
      byLeader(row('GET', '/api/audit/checkpoint', 'token', 'none', 'reads', audit.checkpoint)),
      byLeader(row('GET', '/api/audit/proof', 'token', 'none', 'reads', audit.proof)),
      byLeader(row('GET', '/api/audit/inclusion', 'token', 'none', 'reads', audit.inclusion)),
      row('POST', '/api/audit/key', 'local', 'none', 'rights', audit.rotateKey),
      byLeader(row('GET', '/api/audit/export', 'operator', 'server', 'moves', audit.export)),
      byLeaderIfAny(row('GET', '/api/storage', 'admin', 'server', 'reads', storage.usage)),
      row('POST', '/api/storage/clean', 'admin', 'server', 'works', storage.clean),

      crossOrigin(
        taking(reportBody, row('POST', '/api/public/telemetry/report', 'public', 'none', 'works', telemetry.report))
      ),
      crossOrigin(row('GET', '/api/public/telemetry/overview', 'public', 'none', 'reads', telemetry.overview)),

      relayed(byLeaderIfAny(row('GET', '/api/overview', 'viewer', 'filtered', 'depends', overview.read))),
      relayed(depending(changeTables, row('GET', '/api/changes', 'viewer', 'none', 'reads', changes.read))),
      relayed(row('GET', '/api/system/resources', 'viewer', 'server', 'reads', system.resources)),
      relayed(row('GET', '/api/system/history', 'viewer', 'server', 'reads', system.history)),
      row('GET', '/api/cluster', 'viewer', 'server', 'reads', cluster.read),
      row('POST', '/api/cluster/key', 'local', 'none', 'rights', cluster.rekey),
      row('GET', '/install.sh', 'public', 'none', 'reads', client.script),
      row('GET', '/client.tgz', 'public', 'none', 'reads', client.client),
      row('GET', '/agent.tgz', 'public', 'none', 'reads', client.agent),
      row('GET', '/metrics', 'metrics', 'server', 'reads', metrics.read),
      relayed(row('GET', '/api/pm2/available', 'operator', 'none', 'reads', pm2.available)),
      relayed(row('GET', '/api/pm2/apps', 'operator', 'server', 'reads', pm2.apps)),
      relayed(row('GET', '/api/projects/:id/pm2', 'operator', 'project', 'reads', pm2.binding)),
      relayed(row('GET', '/api/stats/heatmap', 'viewer', 'filtered', 'reads', stats.heatmap)),
      relayed(row('GET', '/api/stats/success-rate', 'viewer', 'filtered', 'reads', stats.successRate)),
      relayed(row('GET', '/api/stats/durations', 'viewer', 'filtered', 'reads', stats.durations)),
      relayed(row('GET', '/api/search', 'viewer', 'filtered', 'reads', search.find)),
      row('GET', '/api/fs/home', 'admin', 'server', 'reads', fs.home),
      row('GET', '/api/fs/list', 'admin', 'server', 'reads', fs.list),

      repeating(['ignore'], row('GET', '/api/migration/export', 'admin_download', 'server', 'moves', migration.export)),
      withTrial(
        taking(streamedBody, row('POST', '/api/migration/import', 'admin', 'server', 'moves', migration.import))
      ),
      byLeader(row('GET', '/api/migration/verify', 'admin', 'server', 'reads', migration.verify)),
      row('GET', '/api/backup', 'local', 'none', 'moves', backup.write),

      relayed(row('GET', '/api/terminal/available', 'admin', 'server', 'reads', terminal.available)),
      byLeader(row('GET', '/api/terminal/ws', 'terminal', 'server', 'commands', terminal.connect)),

      row('POST', '/api/agent/enroll', 'public', 'none', 'node', agent.enroll),
      row('POST', '/api/agent/session', 'agent', 'none', 'node', agent.session),
      byLeader(row('GET', '/api/agent/desired', 'agent', 'none', 'node', agent.desired)),
      byLeader(row('GET', '/api/agent/releases/:deployId', 'agent', 'none', 'node', agent.release)),
      byLeader(row('GET', '/api/agent/blobs/:sha256', 'agent', 'none', 'node', agent.blob)),
      taking(rangesLimits, row('POST', '/api/agent/blobs/:sha256/ranges', 'agent', 'none', 'node', agent.blobRanges)),
      taking(reportLimits, row('POST', '/api/agent/reports', 'agent', 'none', 'node', agent.report)),
      taking(relayPartLimits, row('POST', '/api/agent/relays/:id', 'agent', 'none', 'node', relays.part)),

      // `make build` writes the document (api/map). A client that already has it gets a 304.
      depending(
        [],
        row('GET', '/api/openapi.json', 'public', 'none', 'reads', async () => json((description ??= await describe())))
      )
    ],
    services
  )
  return routes
}
