import { streamedBody } from '../http/core/route.js'
import { json } from '../http/core/route.js'
import { auditHandlers } from './audit.js'
import { authHandlers } from './auth.js'
import { backupHandlers } from './backup.js'
import { changesHandlers, changeTables } from './changes.js'
import { confirmHandlers } from './confirm.js'
import { deployCheckHandlers } from './deploy-check.js'
import { deploymentHandlers } from './deployments.js'
import { driftHandlers } from './drift.js'
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
import { notificationTargetHandlers } from './notification-targets.js'
import { overviewHandlers } from './overview.js'
import { probeRow } from './probe.js'
import { projectHandlers } from './projects.js'
import { crossOrigin, depending, row, taking, versioned } from './route.js'
import type { ApiRoute } from './route.js'
import { searchHandlers } from './search.js'
import { settingsHandlers } from './settings.js'
import { storageHandlers } from './storage.js'
import { reportBody, telemetryHandlers } from './telemetry.js'
import { statsHandlers } from './stats.js'
import { systemHandlers } from './system.js'
import { terminalHandlers } from './terminal.js'
import { treeHandlers } from './tree.js'
import { uploadHandlers } from './upload.js'
import { variableHandlers } from './variables.js'
import { whoamiHandlers } from './whoami.js'

/** Dependencies of the handlers. `server/services.ts` provides it. */
export interface ApiNeeds {
  /** Returns the version of these tables of the store. */
  version(tables: readonly string[]): string
  /** The version of this program, for the API description. */
  program: string
  auth: Parameters<typeof authHandlers>[0]
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
  stats: Parameters<typeof statsHandlers>[0]
  search: Parameters<typeof searchHandlers>[0]
  fs: Parameters<typeof fsHandlers>[0]
  logSources: Parameters<typeof logSourceHandlers>[0]
  migration: Parameters<typeof migrationHandlers>[0]
  backup: Parameters<typeof backupHandlers>[0]

  terminal: Parameters<typeof terminalHandlers>[0]
}

/** A project's record contains its labels and the status of its newest deployment. */
const projectTables = ['projects', 'projectTags', 'categories', 'tags', 'deployments'] as const

/** The table of routes: method, path, authorization (explained in `auth/bearer.ts`) and handler. */
export function apiRoutes(needs: ApiNeeds): ApiRoute[] {
  const auth = authHandlers(needs.auth)
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

  let description: Promise<object> | undefined
  const describe = async (): Promise<object> =>
    (await import('./description/document.js')).describeApi(routes, needs.program)

  const routes: ApiRoute[] = versioned(
    [
      probeRow(needs.health.health),
      row('GET', '/api/health/detail', 'admin', health.detail),

      row('POST', '/api/auth/login', 'public', auth.login),
      row('GET', '/api/auth/whoami', 'token', whoamiHandlers(needs.whoami).whoami),
      row('GET', '/api/auth/session', 'admin', auth.session),
      row('DELETE', '/api/auth/session', 'admin', auth.signOut),
      row('GET', '/api/sessions', 'admin', auth.list),
      row('DELETE', '/api/sessions/:id', 'admin', auth.revoke),
      row('POST', '/api/auth/reset', 'local', auth.resetToken),
      row('POST', '/api/tickets', 'admin', auth.ticket),

      depending(projectTables, row('GET', '/api/projects', 'admin', projects.list)),
      row('POST', '/api/projects', 'admin', projects.create),
      row('POST', '/api/projects/bulk', 'admin', projects.bulk),
      depending(projectTables, row('GET', '/api/projects/:id', 'admin', projects.get)),
      row('PUT', '/api/projects/:id', 'admin', projects.update),
      row('DELETE', '/api/projects/:id', 'admin', projects.remove),
      row('POST', '/api/projects/:id/token', 'admin', projects.regenerateToken),
      row('PUT', '/api/projects/:id/pin', 'admin', projects.pin),
      row('GET', '/api/projects/:id/overview', 'admin', overview.readProject),
      row('GET', '/api/projects/:id/recent-scripts', 'admin', projects.recentScripts),
      row('GET', '/api/projects/:id/variables', 'admin', variables.list),
      row('PUT', '/api/projects/:id/variables', 'admin', variables.replace),
      row('PATCH', '/api/projects/:id/variables', 'admin', variables.change),
      row('PUT', '/api/projects/:id/lock', 'own', locks.lockProject),
      row('DELETE', '/api/projects/:id/lock', 'own', locks.unlockProject),
      depending(['locks', 'projects'], row('GET', '/api/projects/:id/maintenance', 'read', maintenance.get)),
      row('PUT', '/api/projects/:id/maintenance', 'own', maintenance.set),
      row('GET', '/api/projects/:id/tree', 'read', tree.summary),
      row('GET', '/api/projects/:id/verify', 'read', tree.verify),
      row('GET', '/api/projects/:id/drift', 'read', drift.drift),
      row('GET', '/api/projects/:id/drift/file', 'read', drift.driftFile),
      row('GET', '/api/projects/:id/files', 'admin', files.list),
      row('GET', '/api/projects/:id/file', 'admin', files.preview),
      row('GET', '/api/projects/:id/download', 'admin_download', files.download),

      row('GET', '/api/locks', 'read', locks.list),
      row('PUT', '/api/lock', 'admin', locks.lockServer),
      row('DELETE', '/api/lock', 'admin', locks.unlockServer),

      depending(['categories', 'projects'], row('GET', '/api/categories', 'admin', categories.list)),
      row('POST', '/api/categories', 'admin', categories.create),
      row('PUT', '/api/categories/:id', 'admin', categories.update),
      row('DELETE', '/api/categories/:id', 'admin', categories.remove),
      depending(['tags', 'projects', 'projectTags'], row('GET', '/api/tags', 'admin', tags.list)),
      row('POST', '/api/tags', 'admin', tags.create),
      row('PUT', '/api/tags/:id', 'admin', tags.update),
      row('DELETE', '/api/tags/:id', 'admin', tags.remove),

      row('GET', '/api/deploy/check', 'upload_check', deployCheckHandlers(needs.deployCheck).check),
      taking(streamedBody, row('POST', '/api/deploy/plan', 'upload_check', planHandlers(needs.plan).plan)),
      taking(streamedBody, row('POST', '/api/deploy/upload', 'upload', upload)),
      row('POST', '/api/deployments/:id/rollback', 'operate', deployments.rollback),
      row('POST', '/api/projects/:id/undo', 'operate', deployments.undo),
      row('POST', '/api/projects/:id/repair', 'operate', deployments.repair),
      row('POST', '/api/deployments/:id/cancel', 'own', deployments.cancel),
      row('POST', '/api/deployments/:id/confirm', 'own', confirm.confirm),
      row('POST', '/api/deployments/:id/revert', 'own', confirm.revert),
      row('PATCH', '/api/deployments/:id/status', 'admin', deployments.mark),
      row('GET', '/api/deployments/:id/files', 'read', deployments.files),
      row('GET', '/api/deployments/:id/changes', 'read', deployments.changes),

      depending(['deployments'], row('GET', '/api/logs', 'read', logs.list), logs.showsOutput),
      row('GET', '/api/logs/:deployId', 'read', logs.get),
      row('GET', '/api/logs/:deployId/stream', 'read', logs.stream),
      row('GET', '/api/logs/:deployId/output', 'download', logs.output),

      row('GET', '/api/projects/:id/log-sources', 'admin', logSources.list),
      row('POST', '/api/projects/:id/log-sources', 'admin', logSources.create),
      row('GET', '/api/log-sources', 'admin', logSources.listAll),
      row('POST', '/api/log-sources/bulk', 'admin', logSources.bulk),
      row('PATCH', '/api/log-sources/:sourceId', 'admin', logSources.update),
      row('DELETE', '/api/log-sources/:sourceId', 'admin', logSources.remove),
      row('GET', '/api/log-sources/:sourceId/meta', 'admin', logSources.meta),
      row('GET', '/api/log-sources/:sourceId/range', 'admin', logSources.range),
      row('GET', '/api/log-sources/:sourceId/download', 'admin_download', logSources.download),
      row('GET', '/api/log-sources/:sourceId/stream', 'admin', logSources.stream),
      row('GET', '/api/log-sources/:sourceId/search', 'admin', logSources.search),

      row('GET', '/api/settings', 'admin', settings.read),
      row('GET', '/api/settings/schema', 'admin', settings.schema),
      row('PUT', '/api/settings', 'admin', settings.write),
      row('POST', '/api/settings/token', 'admin', auth.changeToken),
      row('GET', '/api/settings/status', 'admin', settings.status),
      row('POST', '/api/settings/webhook-test', 'admin', settings.testWebhook),
      row('GET', '/api/notification-targets', 'admin', notificationTargets.list),
      row('POST', '/api/notification-targets', 'admin', notificationTargets.create),
      row('PUT', '/api/notification-targets/:id', 'admin', notificationTargets.update),
      row('DELETE', '/api/notification-targets/:id', 'admin', notificationTargets.remove),
      row('POST', '/api/notification-targets/:id/test', 'admin', notificationTargets.test),

      depending(['audit'], row('GET', '/api/audit', 'admin', audit.list)),
      row('GET', '/api/storage', 'admin', storage.usage),
      row('POST', '/api/storage/clean', 'admin', storage.clean),

      crossOrigin(taking(reportBody, row('POST', '/api/public/telemetry/report', 'public', telemetry.report))),
      crossOrigin(row('GET', '/api/public/telemetry/overview', 'public', telemetry.overview)),

      row('GET', '/api/overview', 'admin', overview.read),
      depending(changeTables, row('GET', '/api/changes', 'admin', changes.read)),
      row('GET', '/api/system/resources', 'admin', system.resources),
      row('GET', '/api/system/history', 'admin', system.history),
      row('GET', '/metrics', 'metrics', metrics.read),
      row('GET', '/api/pm2/available', 'admin', pm2.available),
      row('GET', '/api/pm2/apps', 'admin', pm2.apps),
      row('GET', '/api/projects/:id/pm2', 'admin', pm2.binding),
      row('GET', '/api/stats/heatmap', 'admin', stats.heatmap),
      row('GET', '/api/stats/success-rate', 'admin', stats.successRate),
      row('GET', '/api/stats/durations', 'admin', stats.durations),
      row('GET', '/api/search', 'admin', search.find),
      row('GET', '/api/fs/home', 'admin', fs.home),
      row('GET', '/api/fs/list', 'admin', fs.list),

      row('GET', '/api/migration/export', 'admin_download', migration.export),
      taking(streamedBody, row('POST', '/api/migration/import', 'admin', migration.import)),
      row('GET', '/api/migration/verify', 'admin', migration.verify),
      row('GET', '/api/backup', 'local', backup.write),

      row('GET', '/api/terminal/available', 'admin', terminal.available),
      row('GET', '/api/terminal/ws', 'terminal', terminal.connect),

      // The document depends only on the program. It is built once, and a client that already has it gets a 304.
      depending(
        [],
        row('GET', '/api/openapi.json', 'public', async () => json(await (description ??= describe())))
      )
    ],
    needs.version
  )
  return routes
}
