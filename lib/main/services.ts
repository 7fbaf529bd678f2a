import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { ApiNeeds } from '../api/routes.js'
import { createRecords } from '../api/records.js'
import { createActivity } from '../base/activity.js'
import type { Activity } from '../base/activity.js'
import { elapsedOf } from '../base/clock.js'
import { createBackups } from '../backup/backup.js'
import { createDeployer } from '../deploy/deployer.js'
import { createListed } from '../deploy/listed.js'
import type { Deployer } from '../deploy/deployer.js'
import { createCollector, maxOverviewDays } from '../notify/collector.js'
import { createRateLimit } from '../notify/rate-limit.js'
import { createTargets as createNotificationTargets } from '../notify/targets.js'
import { createWebhook } from '../notify/webhook.js'
import type { Webhook } from '../notify/webhook.js'
import { createDeny } from '../logs/deny.js'
import { createInflatedFiles } from '../logs/inflated.js'
import { createOpenLog } from '../logs/open.js'
import { createSearches } from '../logs/search.js'
import type { Searches } from '../logs/search.js'
import { createSecrets } from '../logs/secrets.js'
import { createLogSources } from '../logs/sources.js'
import { createLogViewer } from '../logs/viewer.js'
import type { LogViewer } from '../logs/viewer.js'
import { createFileWatcher } from '../logs/watch.js'
import { logKinds } from '../model/log-source.js'
import type { LogSource } from '../model/log-source.js'
import { deploymentPage } from '../model/links.js'
import { createPtyLoader } from '../proc/pty.js'
import { applyToProjects } from '../projects/bulk.js'
import { createLabels } from '../projects/labels.js'
import { createProjects } from '../projects/projects.js'
import { createTargets } from '../projects/targets.js'
import { createVariables } from '../projects/variables.js'
import { createVariablesKey } from '../projects/variables-key.js'
import { recentScripts } from '../projects/recent-scripts.js'
import { listAudit } from '../store/tables/audit.js'
import { listDeployments, liveDeployment } from '../store/tables/deployments.js'
import { findLogSource, insertLogSource, listLogSources, updateLogSource } from '../store/tables/log-sources.js'
import { findProject, listPinnedProjects, newestProject } from '../store/tables/projects.js'
import { createBroken } from '../system/broken.js'
import { createDeploymentCounts } from '../system/deployment-counts.js'
import { createLoopDelayMeter } from '../system/loop-delay.js'
import { createMetrics } from '../system/metrics.js'
import { createCpuMeter } from '../system/cpu.js'
import { createHistory, createTakeFacts } from '../system/history.js'
import type { History } from '../system/history.js'
import { createHealth } from '../system/health.js'
import { createPlaces } from '../system/places.js'
import { createPm2 } from '../system/pm2.js'
import { createQuota } from '../system/quota.js'
import { createResources } from '../system/resources.js'
import { createSearch } from '../system/search.js'
import { settingRows } from '../system/settings.js'
import { createStorage } from '../system/storage.js'
import { createStats } from '../system/stats.js'
import { readStatus } from '../system/status.js'
import { createTerminals } from '../terminal/sessions.js'
import type { Terminals } from '../terminal/sessions.js'
import type { LogSourceTable } from '../transfer/needs.js'
import type { LogSourceRecord } from '../transfer/package.js'
import { createTransfer } from '../transfer/transfer.js'
import type { Front, World } from './front.js'

export interface Services {
  deployer: Deployer
  webhook: Webhook
  history: History
  logViewer: LogViewer
  terminals: Terminals
  /** What the API's handlers need of all of them. */
  api: ApiNeeds
}

/** Deployments searched for scripts that ran. */
const searchedForScripts = 200

/** Builds every service behind the front; each gets what it needs of another as the small interface it declares. */
export function createServices(world: World, front: Front): Services {
  const { store, home, clock, ids, environment, allowSystemPaths, version, publicUrl, log } = world
  const { admin, audit, limiter, settings, tickets, sessions, allowList, probe, startedAtMs } = front
  const notificationTargets = createNotificationTargets({
    store, clock, ids, audit, settings, isProject: (db, id) => findProject(db, id) !== undefined
  })
  const webhook = createWebhook({ targets: notificationTargets, audit: audit.record, clock, ids, version, publicUrl, log })
  const counts = createDeploymentCounts()
  const [logFollowers, searches] = [createActivity(), createActivity()]
  const quota = createQuota({ store, home, settings })
  const variables = createVariables({ store, clock, audit, key: createVariablesKey(home.variablesKey) })
  const deployer = createDeployer({
    store,
    home,
    allowSystemPaths,
    clock,
    ids,
    settings,
    environment,
    quota,
    variables,
    audit: event => void audit.record(event),
    notify: webhook.notify,
    ended: counts.ended,
    log
  })
  const projects = createProjects({ store, clock, ids, audit, home: home.directory, allowSystemPaths, deployments: deployer })
  const targets = createTargets()
  // The commands of svc's user keep tokens in ~/.svc, wherever the data directory is.
  const deny = createDeny([...namesOf(home.directory), join(homedir(), '.svc')])
  const guarded = { deny, secrets: [home.configFile, home.database, home.variablesKey] }
  const openLog = createOpenLog(guarded)
  const logSources = createLogSources({
    store, clock, ids, audit, openLog, checkProject: id => void projects.get(id)
  })
  const viewer = createLogViewer({
    openLog, clock, inflated: createInflatedFiles({ tmp: home.tmp }), watcher: createFileWatcher(), searches: countedSearches(searches)
  })
  const logViewer: LogViewer = { ...viewer, follow: (...given) => logFollowers.during(() => viewer.follow(...given)) }
  const transfer = createTransfer({
    store, home, allowSystemPaths, clock, ids, version, audit, settings, deployments: deployer, logSources: logSourceTable
  })
  const deployments = createListed(store, deployer)
  const status = () => readStatus(store, { version, uptimeMs: elapsedOf(clock) - startedAtMs })
  const stats = createStats({ store, clock })
  const records = createRecords({ findDeployment: deployments.find, deployer, settings })
  const health = createHealth({
    store, clock, version, probe, home, secretsFault: variables.check,
    checksHostNames: () => publicUrl !== null || settings.list('allowed_hosts').length > 0
  })
  const disk = async () => (await health.detail()).disk
  const terminals = createTerminals({
    isOffered: world.terminal,
    isEnabled: () => settings.flag('terminal_enabled'),
    loadPty: createPtyLoader(),
    environment,
    audit: audit.record,
    clock,
    ids
  })
  const history = createHistory({ store, clock, log, take: createTakeFacts({ directory: home.directory, ends: counts.totals }) })
  const pageOf = (id: string) => deploymentPage(publicUrl, id)
  const storage = createStorage({ store, home, retention: deployer, quota, measureTargets: targets.measure, disk, audit })

  return {
    deployer,
    webhook,
    history,
    logViewer,
    terminals,
    api: {
      version: store.version,
      program: version,
      auth: { admin, limiter, tickets, sessions, audit },
      projects: {
        projects,
        bulk: (action, chosen, actor) => applyToProjects(projects, { action, ids: chosen, actor }),
        recentScripts(projectId) {
          projects.get(projectId)
          return recentScripts(listDeployments(store, { projectId, status: 'success', limit: searchedForScripts }))
        }
      },
      variables: { variables },
      categories: createLabels('category', { store, clock, ids, audit }),
      tags: createLabels('tag', { store, clock, ids, audit }),
      files: { projects, targets, secrets: createSecrets(guarded) },
      whoami: { findProject: id => findProject(store, id) },
      deployCheck: { deployer, findProject: id => findProject(store, id), settings, quota },
      upload: { deployer, findProject: id => findProject(store, id), settings, quota, pageOf },
      deployments: { deployer, records, pageOf },
      logs: { records, deployer, deployments },
      settings: { settings, webhook, status, publicUrl },
      notificationTargets: { targets: notificationTargets, webhook },
      health: { health },
      audit: { listAudit: query => listAudit(store, query) },
      storage: { storage },
      telemetry: {
        collector: createCollector({ store, clock }),
        maxDays: maxOverviewDays,
        reports: createRateLimit({ clock, perKey: 30, ofAll: 600 }),
        overviews: createRateLimit({ clock, perKey: 30, ofAll: 120 })
      },

      overview: {
        status, health, stats,
        broken: createBroken({ store, findDeployment: deployments.find }),
        deployments: { ...deployments, live: projectId => liveDeployment(store, projectId) },
        projects: { get: projects.get, pinned: () => listPinnedProjects(store), newest: () => newestProject(store) }
      },
      system: { resources: createResources({ clock, cpu: createCpuMeter(), directory: home.directory }), history },
      metrics: {
        metrics: createMetrics({
          store, clock, version, startedAtMs, deployments: counts, loopDelay: createLoopDelayMeter(), logFollowers, searches,
          uploads: () => deployer.figures().uploads,
          outputFollowers: () => deployer.figures().followers,
          deliveries: webhook.deliveries
        })
      },
      pm2: { pm2: createPm2({ clock, environment }), projects },
      stats: { stats, projects },
      search: { search: createSearch({ store, settings: settingRows }) },
      fs: { places: createPlaces({ isDenied: path => deny(path) !== null }) },

      logSources: { sources: logSources, viewer: logViewer },

      migration: { transfer, deployer, quota, clock },
      backup: { backups: createBackups({ store, home, clock, ids, version, audit }) },

      terminal: { terminals, projects, allowList }
    }
  }
}

/** Searches that are counted. */
function countedSearches(activity: Activity): Searches {
  const searches = createSearches()
  return { ...searches, run: (...given) => activity.during(() => searches.run(...given)) }
}

/** A directory by the name it was given and by the one it has. */
function namesOf(directory: string): string[] {
  return [...new Set([directory, realpathSync(directory)])]
}

/** Log sources as packages carry them; a kind that is not known here is read as plain lines. */
const logSourceTable: LogSourceTable = {
  list: listLogSources,
  find: findLogSource,
  insert: (tx, source) => insertLogSource(tx, ofKnownKind(source)),
  replace: (tx, source) => void updateLogSource(tx, source.id, ofKnownKind(source))
}

function ofKnownKind(source: LogSourceRecord): LogSource {
  return { ...source, kind: logKinds.find(kind => kind === source.kind) ?? 'plain' }
}
