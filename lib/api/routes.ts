import { streamedBody } from '../http/core/route.js'
import { json } from '../http/core/route.js'
import { accessReportHandlers } from './access-report.js'
import { agentHandlers, rangesLimits, reportLimits } from './agent.js'
import type { Proof } from '../auth/proof.js'
import type { Fleet } from '../fleet/hub/fleet.js'
import type { HubRelays } from '../fleet/relay/hub-relays.js'
import { auditHandlers } from './audit.js'
import { authHandlers } from './auth.js'
import { backupHandlers } from './backup.js'
import { changesHandlers, changeTables } from './changes.js'
import { clusterHandlers } from './cluster.js'
import { confirmHandlers } from './confirm.js'
import { deployCheckHandlers } from './deploy-check.js'
import { deploymentHandlers } from './deployments.js'
import { driftHandlers } from './drift.js'
import { enrollmentHandlers } from './enrollments.js'
import { fileHandlers } from './files.js'
import { fsHandlers } from './fs.js'
import { healthHandlers } from './health.js'
import { labelHandlers } from './labels.js'
import { lockHandlers } from './locks.js'
import { logHandlers } from './logs.js'
import { planHandlers } from './plan.js'
import { pm2Handlers } from './pm2.js'
import { maintenanceHandlers } from './maintenance.js'
import { logSourceHandlers } from './log-sources.js'
import { metricsHandlers } from './metrics.js'
import { migrationHandlers } from './migration.js'
import { nodeHandlers } from './nodes.js'
import { notificationTargetHandlers } from './notification-targets.js'
import { overviewHandlers } from './overview.js'
import { placementHandlers } from './placements.js'
import { relayHandlers, relayPartLimits } from './relays.js'
import { probeRow } from './probe.js'
import { projectHandlers } from './projects.js'
import {
  byLeader,
  byLeaderIfAny,
  completed,
  crossOrigin,
  depending,
  onTarget,
  proven,
  relayed,
  row,
  taking
} from './route.js'
import type { ApiRoute } from './route.js'
import { rolloutHandlers } from './rollouts.js'
import type { ProjectLookup } from './scope.js'
import { secondFactorHandlers } from './second-factor.js'
import { searchHandlers } from './search.js'
import { settingsHandlers } from './settings.js'
import { storageHandlers } from './storage.js'
import { reportBody, telemetryHandlers } from './telemetry.js'
import { statsHandlers } from './stats.js'
import { systemHandlers } from './system.js'
import { terminalHandlers } from './terminal.js'
import { tokenHandlers } from './tokens.js'
import { treeHandlers } from './tree.js'
import { uploadHandlers } from './upload.js'
import { variableHandlers } from './variables.js'
import { whoamiHandlers } from './whoami.js'

/** Dependencies of the handlers. `server/services.ts` provides it. */
export interface ApiNeeds {
  /** Finds the projects of records. */
  lookup: ProjectLookup
  /** Returns the version of these tables of the store. */
  version(tables: readonly string[]): string
  /** The version of this program, for the API description. */
  program: string
  auth: Parameters<typeof authHandlers>[0]
  tokens: Parameters<typeof tokenHandlers>[0]
  secondFactor: Parameters<typeof secondFactorHandlers>[0]
  proof: Proof
  accessReport: Parameters<typeof accessReportHandlers>[0]
  projects: Parameters<typeof projectHandlers>[0]
  variables: Parameters<typeof variableHandlers>[0]
  categories: Parameters<typeof labelHandlers>[1]
  tags: Parameters<typeof labelHandlers>[1]
  files: Parameters<typeof fileHandlers>[0]
  upload: Parameters<typeof uploadHandlers>[0]
  whoami: Parameters<typeof whoamiHandlers>[0]
  deployCheck: Parameters<typeof deployCheckHandlers>[0]
  plan: Parameters<typeof planHandlers>[0]
  drift: Parameters<typeof driftHandlers>[0]
  tree: Parameters<typeof treeHandlers>[0]
  deployments: Parameters<typeof deploymentHandlers>[0]
  locks: Parameters<typeof lockHandlers>[0]
  maintenance: Parameters<typeof maintenanceHandlers>[0]
  confirm: Parameters<typeof confirmHandlers>[0]
  logs: Parameters<typeof logHandlers>[0]
  settings: Parameters<typeof settingsHandlers>[0]
  notificationTargets: Parameters<typeof notificationTargetHandlers>[0]
  health: Parameters<typeof healthHandlers>[0]
  audit: Parameters<typeof auditHandlers>[0]
  storage: Parameters<typeof storageHandlers>[0]
  telemetry: Parameters<typeof telemetryHandlers>[0]

  overview: Parameters<typeof overviewHandlers>[0]
  system: Parameters<typeof systemHandlers>[0]
  metrics: Parameters<typeof metricsHandlers>[0]
  pm2: Parameters<typeof pm2Handlers>[0]
  cluster: Parameters<typeof clusterHandlers>[0]
  stats: Parameters<typeof statsHandlers>[0]
  search: Parameters<typeof searchHandlers>[0]
  fs: Parameters<typeof fsHandlers>[0]
  logSources: Parameters<typeof logSourceHandlers>[0]
  migration: Parameters<typeof migrationHandlers>[0]
  backup: Parameters<typeof backupHandlers>[0]

  terminal: Parameters<typeof terminalHandlers>[0]
  /** Returns the fleet, which is loaded at its first use. */
  fleet(): Promise<Fleet>
  /** Returns the relays to the nodes. */
  relays(): Promise<HubRelays>
  enrollments: Omit<Parameters<typeof enrollmentHandlers>[0], 'fleet'>
  placements: Omit<Parameters<typeof placementHandlers>[0], 'fleet'>
  agent: Parameters<typeof agentHandlers>[0]
  /** Refuses 409 `project_is_placed`. */
  refusePlaced(projectId: string): void
}

/** A project's record contains its labels and the status of its newest deployment. */
const projectTables = ['projects', 'projectTags', 'categories', 'tags', 'deployments'] as const

/**
 * The table of routes: method, path, authorization (explained in `auth/bearer.ts`), the project that a request concerns
 * (`scope.ts`), and handler.
 */
export function apiRoutes(needs: ApiNeeds): ApiRoute[] {
  const auth = authHandlers(needs.auth)
  const tokens = tokenHandlers(needs.tokens)
  const secondFactor = secondFactorHandlers(needs.secondFactor)
  const accessReport = accessReportHandlers(needs.accessReport)
  const projects = projectHandlers(needs.projects)
  const variables = variableHandlers(needs.variables)
  const files = fileHandlers(needs.files)
  const categories = labelHandlers('category', needs.categories)
  const tags = labelHandlers('tag', needs.tags)
  const { upload } = uploadHandlers(needs.upload)
  const deployments = deploymentHandlers(needs.deployments)
  const locks = lockHandlers(needs.locks)
  const maintenance = maintenanceHandlers(needs.maintenance)
  const drift = driftHandlers(needs.drift)
  const tree = treeHandlers(needs.tree)
  const confirm = confirmHandlers(needs.confirm)
  const logs = logHandlers(needs.logs)
  const settings = settingsHandlers(needs.settings)
  const notificationTargets = notificationTargetHandlers(needs.notificationTargets)
  const health = healthHandlers(needs.health)
  const audit = auditHandlers(needs.audit)
  const storage = storageHandlers(needs.storage)
  const telemetry = telemetryHandlers(needs.telemetry)

  const changes = changesHandlers(needs)
  const overview = overviewHandlers(needs.overview)
  const system = systemHandlers(needs.system)
  const metrics = metricsHandlers(needs.metrics)
  const pm2 = pm2Handlers(needs.pm2)
  const stats = statsHandlers(needs.stats)
  const search = searchHandlers(needs.search)
  const fs = fsHandlers(needs.fs)
  const logSources = logSourceHandlers(needs.logSources)
  const migration = migrationHandlers(needs.migration)
  const backup = backupHandlers(needs.backup)

  const terminal = terminalHandlers(needs.terminal)
  const nodes = nodeHandlers(needs)
  const enrollments = enrollmentHandlers({ ...needs.enrollments, fleet: needs.fleet })
  const placements = placementHandlers({ ...needs.placements, fleet: needs.fleet })
  const rollouts = rolloutHandlers(needs)
  const agent = agentHandlers(needs.agent)
  const relays = relayHandlers({ ...needs, routes: () => routes })

  let description: Promise<object> | undefined
  const describe = async (): Promise<object> =>
    (await import('./description/document.js')).describeApi(routes, needs.program)

  const routes: ApiRoute[] = completed(
    [
      probeRow(needs.health.health),
      relayed(row('GET', '/api/health/detail', 'viewer', 'server', health.detail)),

      row('POST', '/api/auth/login', 'public', 'none', auth.login),
      row('GET', '/api/auth/whoami', 'token', 'none', whoamiHandlers(needs.whoami).whoami),
      row('GET', '/api/auth/session', 'viewer', 'none', auth.session),
      row('DELETE', '/api/auth/session', 'viewer', 'none', auth.signOut),
      row('POST', '/api/auth/prove', 'viewer', 'none', auth.prove),
      proven(row('POST', '/api/auth/second-factor', 'viewer', 'none', secondFactor.begin)),
      row('POST', '/api/auth/second-factor/confirm', 'viewer', 'none', secondFactor.confirm),
      row('DELETE', '/api/auth/second-factor', 'viewer', 'none', secondFactor.remove),
      byLeaderIfAny(row('GET', '/api/sessions', 'admin', 'server', auth.list)),
      proven(row('DELETE', '/api/sessions/:id', 'admin', 'server', auth.revoke)),
      row('POST', '/api/auth/reset', 'local', 'none', auth.resetToken),
      row('POST', '/api/tickets', 'viewer', 'none', auth.ticket),

      row('GET', '/api/tokens', 'admin', 'server', tokens.list),
      proven(row('POST', '/api/tokens', 'admin', 'server', tokens.create)),
      proven(row('DELETE', '/api/tokens/:id/second-factor', 'admin', 'server', secondFactor.reset)),
      row('GET', '/api/tokens/self', 'token', 'none', tokens.self),
      proven(row('PATCH', '/api/tokens/:id', 'admin', 'server', tokens.update)),
      proven(row('POST', '/api/tokens/:id/rotate', 'admin', 'server', tokens.rotate)),
      proven(row('DELETE', '/api/tokens/:id', 'admin', 'server', tokens.revoke)),
      row('GET', '/api/access/report', 'admin', 'server', accessReport.read),

      relayed(depending(projectTables, row('GET', '/api/projects', 'viewer', 'filtered', projects.list))),
      row('POST', '/api/projects', 'admin', 'server', projects.create),
      row('POST', '/api/projects/bulk', 'admin', 'server', projects.bulk),
      relayed(depending(projectTables, row('GET', '/api/projects/:id', 'viewer', 'project', projects.get))),
      row('PUT', '/api/projects/:id', 'admin', 'project', projects.update),
      row('DELETE', '/api/projects/:id', 'admin', 'project', projects.remove),
      proven(row('POST', '/api/projects/:id/token', 'admin', 'project', projects.regenerateToken)),
      row('PUT', '/api/projects/:id/pin', 'admin', 'project', projects.pin),
      relayed(row('GET', '/api/projects/:id/overview', 'viewer', 'project', overview.readProject)),
      row('GET', '/api/projects/:id/recent-scripts', 'admin', 'project', projects.recentScripts),
      row('GET', '/api/projects/:id/variables', 'operator', 'project', variables.list),
      row('PUT', '/api/projects/:id/variables', 'admin', 'project', variables.replace),
      row('PATCH', '/api/projects/:id/variables', 'admin', 'project', variables.change),
      row('PUT', '/api/projects/:id/lock', 'manage', 'project', locks.lockProject),
      row('DELETE', '/api/projects/:id/lock', 'manage', 'project', locks.unlockProject),
      relayed(
        depending(
          ['locks', 'projects'],
          row('GET', '/api/projects/:id/maintenance', 'read', 'project', maintenance.get)
        )
      ),
      onTarget(row('PUT', '/api/projects/:id/maintenance', 'manage', 'project', maintenance.set)),
      relayed(byLeader(row('GET', '/api/projects/:id/tree', 'read', 'project', tree.summary))),
      onTarget(relayed(byLeader(row('GET', '/api/projects/:id/verify', 'read', 'project', tree.verify)))),
      onTarget(relayed(byLeader(row('GET', '/api/projects/:id/drift', 'read', 'project', drift.drift)))),
      onTarget(relayed(byLeader(row('GET', '/api/projects/:id/drift/file', 'fetch', 'project', drift.driftFile)))),
      onTarget(relayed(row('GET', '/api/projects/:id/files', 'operator', 'project', files.list))),
      onTarget(relayed(row('GET', '/api/projects/:id/file', 'operator', 'project', files.preview))),
      onTarget(relayed(row('GET', '/api/projects/:id/download', 'operator_download', 'project', files.download))),

      relayed(row('GET', '/api/locks', 'read', 'filtered', locks.list)),
      row('PUT', '/api/lock', 'operator', 'server', locks.lockServer),
      row('DELETE', '/api/lock', 'operator', 'server', locks.unlockServer),

      relayed(
        depending(['categories', 'projects'], row('GET', '/api/categories', 'viewer', 'filtered', categories.list))
      ),
      row('POST', '/api/categories', 'admin', 'server', categories.create),
      row('PUT', '/api/categories/:id', 'admin', 'server', categories.update),
      row('DELETE', '/api/categories/:id', 'admin', 'server', categories.remove),
      relayed(depending(['tags', 'projects', 'projectTags'], row('GET', '/api/tags', 'viewer', 'filtered', tags.list))),
      row('POST', '/api/tags', 'admin', 'server', tags.create),
      row('PUT', '/api/tags/:id', 'admin', 'server', tags.update),
      row('DELETE', '/api/tags/:id', 'admin', 'server', tags.remove),

      byLeader(row('GET', '/api/deploy/check', 'upload_check', 'given', deployCheckHandlers(needs.deployCheck).check)),
      taking(streamedBody, row('POST', '/api/deploy/plan', 'upload_check', 'given', planHandlers(needs.plan).plan)),
      taking(streamedBody, row('POST', '/api/deploy/upload', 'upload', 'given', upload)),
      row('POST', '/api/deployments/:id/rollback', 'operate', 'deployment', deployments.rollback),
      onTarget(row('POST', '/api/projects/:id/undo', 'operate', 'project', deployments.undo)),
      onTarget(row('POST', '/api/projects/:id/repair', 'operate', 'project', deployments.repair)),
      row('POST', '/api/deployments/:id/cancel', 'own', 'deployment', deployments.cancel),
      row('POST', '/api/deployments/:id/confirm', 'own', 'deployment', confirm.confirm),
      row('POST', '/api/deployments/:id/revert', 'own', 'deployment', confirm.revert),
      row('PATCH', '/api/deployments/:id/status', 'operator', 'deployment', deployments.mark),
      relayed(byLeaderIfAny(row('GET', '/api/deployments/:id/files', 'read', 'deployment', deployments.files))),
      relayed(byLeaderIfAny(row('GET', '/api/deployments/:id/changes', 'read', 'deployment', deployments.changes))),

      relayed(depending(['deployments'], row('GET', '/api/logs', 'read', 'filtered', logs.list), logs.showsOutput)),
      relayed(byLeaderIfAny(row('GET', '/api/logs/:deployId', 'read', 'deployment', logs.get))),
      relayed(byLeader(row('GET', '/api/logs/:deployId/stream', 'read', 'deployment', logs.stream))),
      relayed(byLeaderIfAny(row('GET', '/api/logs/:deployId/output', 'download', 'deployment', logs.output))),

      relayed(row('GET', '/api/projects/:id/log-sources', 'viewer', 'project', logSources.list)),
      row('POST', '/api/projects/:id/log-sources', 'admin', 'project', logSources.create),
      relayed(row('GET', '/api/log-sources', 'viewer', 'filtered', logSources.listAll)),
      row('POST', '/api/log-sources/bulk', 'admin', 'server', logSources.bulk),
      row('PATCH', '/api/log-sources/:sourceId', 'operator', 'logSource', logSources.update),
      row('DELETE', '/api/log-sources/:sourceId', 'operator', 'logSource', logSources.remove),
      relayed(row('GET', '/api/log-sources/:sourceId/meta', 'viewer', 'logSource', logSources.meta)),
      relayed(row('GET', '/api/log-sources/:sourceId/range', 'viewer', 'logSource', logSources.range)),
      relayed(row('GET', '/api/log-sources/:sourceId/download', 'viewer_download', 'logSource', logSources.download)),
      relayed(row('GET', '/api/log-sources/:sourceId/stream', 'viewer', 'logSource', logSources.stream)),
      relayed(row('GET', '/api/log-sources/:sourceId/search', 'viewer', 'logSource', logSources.search)),

      byLeaderIfAny(row('GET', '/api/nodes', 'viewer', 'filtered', nodes.list)),
      byLeaderIfAny(row('GET', '/api/nodes/:node', 'viewer', 'filtered', nodes.get)),
      row('PATCH', '/api/nodes/:node', 'admin', 'server', nodes.update),
      row('PUT', '/api/nodes/:node/drain', 'operator', 'server', nodes.drain),
      proven(row('DELETE', '/api/nodes/:node', 'admin', 'server', nodes.forget)),
      byLeader(row('GET', '/api/nodes/:node/at/*path', 'download', 'given', relays.read)),
      byLeader(proven(row('GET', '/api/nodes/:node/terminal', 'terminal', 'server', relays.terminal))),
      byLeader(row('GET', '/api/enrollments', 'admin', 'server', enrollments.list)),
      proven(row('POST', '/api/enrollments', 'admin', 'server', enrollments.create)),
      row('DELETE', '/api/enrollments/:id', 'admin', 'server', enrollments.revoke),
      byLeaderIfAny(row('GET', '/api/projects/:id/placements', 'viewer', 'project', placements.list)),
      row('PATCH', '/api/projects/:id/placements', 'admin', 'project', placements.change),
      byLeaderIfAny(row('GET', '/api/rollouts', 'read', 'filtered', rollouts.list)),
      byLeaderIfAny(row('GET', '/api/rollouts/:rolloutId', 'read', 'rollout', rollouts.get)),
      byLeaderIfAny(row('GET', '/api/rollouts/:rolloutId/nodes/:node', 'read', 'rollout', rollouts.node)),
      byLeader(row('GET', '/api/rollouts/:rolloutId/events', 'read', 'rollout', rollouts.events)),
      row('POST', '/api/rollouts/:rolloutId/halt', 'manage', 'rollout', rollouts.halt),
      row('POST', '/api/rollouts/:rolloutId/resume', 'manage', 'rollout', rollouts.resume),
      row('POST', '/api/rollouts/:rolloutId/revert', 'manage', 'rollout', rollouts.revert),
      row('POST', '/api/rollouts/:rolloutId/approve', 'operate', 'rollout', rollouts.approve),

      row('GET', '/api/settings', 'admin', 'server', settings.read),
      row('GET', '/api/settings/schema', 'admin', 'server', settings.schema),
      proven(row('PUT', '/api/settings', 'admin', 'server', settings.write)),
      proven(row('POST', '/api/settings/token', 'admin', 'server', auth.changeToken)),
      relayed(row('GET', '/api/settings/status', 'viewer', 'server', settings.status)),
      row('POST', '/api/settings/webhook-test', 'admin', 'server', settings.testWebhook),
      row('GET', '/api/notification-targets', 'admin', 'server', notificationTargets.list),
      proven(row('POST', '/api/notification-targets', 'admin', 'server', notificationTargets.create)),
      proven(row('PUT', '/api/notification-targets/:id', 'admin', 'server', notificationTargets.update)),
      proven(row('DELETE', '/api/notification-targets/:id', 'admin', 'server', notificationTargets.remove)),
      row('POST', '/api/notification-targets/:id/test', 'admin', 'server', notificationTargets.test),

      depending(['audit'], row('GET', '/api/audit', 'viewer', 'filtered', audit.list)),
      byLeader(row('GET', '/api/audit/checkpoint', 'token', 'none', audit.checkpoint)),
      byLeader(row('GET', '/api/audit/proof', 'token', 'none', audit.proof)),
      byLeader(row('GET', '/api/audit/inclusion', 'token', 'none', audit.inclusion)),
      row('POST', '/api/audit/key', 'local', 'none', audit.rotateKey),
      byLeader(proven(row('GET', '/api/audit/export', 'operator', 'server', audit.export))),
      byLeaderIfAny(row('GET', '/api/storage', 'admin', 'server', storage.usage)),
      row('POST', '/api/storage/clean', 'admin', 'server', storage.clean),

      crossOrigin(taking(reportBody, row('POST', '/api/public/telemetry/report', 'public', 'none', telemetry.report))),
      crossOrigin(row('GET', '/api/public/telemetry/overview', 'public', 'none', telemetry.overview)),

      relayed(byLeaderIfAny(row('GET', '/api/overview', 'viewer', 'filtered', overview.read))),
      relayed(depending(changeTables, row('GET', '/api/changes', 'viewer', 'none', changes.read))),
      relayed(row('GET', '/api/system/resources', 'viewer', 'server', system.resources)),
      relayed(row('GET', '/api/system/history', 'viewer', 'server', system.history)),
      row('GET', '/api/cluster', 'viewer', 'server', clusterHandlers(needs.cluster).read),
      row('GET', '/metrics', 'metrics', 'server', metrics.read),
      relayed(row('GET', '/api/pm2/available', 'operator', 'none', pm2.available)),
      relayed(row('GET', '/api/pm2/apps', 'operator', 'server', pm2.apps)),
      relayed(row('GET', '/api/projects/:id/pm2', 'operator', 'project', pm2.binding)),
      relayed(row('GET', '/api/stats/heatmap', 'viewer', 'filtered', stats.heatmap)),
      relayed(row('GET', '/api/stats/success-rate', 'viewer', 'filtered', stats.successRate)),
      relayed(row('GET', '/api/stats/durations', 'viewer', 'filtered', stats.durations)),
      relayed(row('GET', '/api/search', 'viewer', 'filtered', search.find)),
      row('GET', '/api/fs/home', 'admin', 'server', fs.home),
      row('GET', '/api/fs/list', 'admin', 'server', fs.list),

      proven(row('GET', '/api/migration/export', 'admin_download', 'server', migration.export)),
      proven(taking(streamedBody, row('POST', '/api/migration/import', 'admin', 'server', migration.import))),
      byLeader(row('GET', '/api/migration/verify', 'admin', 'server', migration.verify)),
      row('GET', '/api/backup', 'local', 'none', backup.write),

      relayed(row('GET', '/api/terminal/available', 'admin', 'server', terminal.available)),
      byLeader(proven(row('GET', '/api/terminal/ws', 'terminal', 'server', terminal.connect))),

      row('POST', '/api/agent/enroll', 'public', 'none', agent.enroll),
      row('POST', '/api/agent/session', 'agent', 'none', agent.session),
      byLeader(row('GET', '/api/agent/desired', 'agent', 'none', agent.desired)),
      byLeader(row('GET', '/api/agent/releases/:deployId', 'agent', 'none', agent.release)),
      byLeader(row('GET', '/api/agent/blobs/:sha256', 'agent', 'none', agent.blob)),
      taking(rangesLimits, row('POST', '/api/agent/blobs/:sha256/ranges', 'agent', 'none', agent.blobRanges)),
      taking(reportLimits, row('POST', '/api/agent/reports', 'agent', 'none', agent.report)),
      taking(relayPartLimits, row('POST', '/api/agent/relays/:id', 'agent', 'none', relays.part)),

      // The document depends only on the program. It is built once, and a client that already has it gets a 304.
      depending(
        [],
        row('GET', '/api/openapi.json', 'public', 'none', async () => json(await (description ??= describe())))
      )
    ],
    needs
  )
  return routes
}
