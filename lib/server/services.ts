import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { clusterFileName, nodeName } from '../base/config/home.js'
import { userHome } from '../base/runtime.js'
import type { ApiServices } from '../api/services.js'
import { createRecords } from '../api/records.js'
import { createActivity, type Activity, createDoor, type Door } from '../base/async.js'
import { createBudget, createSpool } from '../base/budget.js'
import { tooMuch } from '../http/core/memory.js'
import { elapsedOf } from '../base/clock.js'
import { createAccessReport, createTokenReminders, type TokenReminders } from '../access/access-report.js'
import { hasEnded } from '../access/bearer.js'
import { mayClientsSendScripts } from '../deploy/scripts/scripts.js'
import { Pieces } from '../deploy/pieces.js'
import { type ArchiveCheck, createArchiveCheck } from '../deploy/archive-check.js'
import { createDeployer, type Deployer } from '../deploy/deployer.js'
import { refusePlaced } from '../deploy/wishes.js'
import { createListed } from '../deploy/record.js'
import { createCollector, createRateLimit, maxOverviewDays } from '../operate/telemetry.js'
import { createTargets as createNotificationTargets } from '../operate/notify/targets.js'
import { createIncidents, type Incidents, deploymentPage } from '../operate/notify/events.js'
import { Webhook } from '../operate/notify/webhook.js'
import { logKinds, type LogSource } from '../model/log-source.js'
import { applyToProjects, createLabels, Projects, recentScripts } from '../projects/projects.js'
import { type CheckHeaders, createCheckHeaders, createVariablesKey } from '../projects/seal.js'
import { Variables } from '../projects/variables.js'
import { runsCommand } from '../base/shared/api.js'
import { isPlaced, listPlaced, listPlacements, nodesOfProject } from '../core/store/tables/fleet.js'
import { adviceOf, type BuiltInToken, type ProjectScope } from '../model/access.js'
import { findToken } from '../core/store/tables/access.js'
import { listAudit } from '../core/store/tables/audit.js'
import { findDeployment, listDeployments, liveDeployment } from '../core/store/tables/deployments.js'
import { findRollout } from '../core/store/tables/rollouts.js'
import {
  brokenInBackground,
  findLogSource,
  findProject,
  insertLogSource,
  listLogSources,
  listPinnedProjects,
  newestProject,
  readProjects,
  updateLogSource
} from '../core/store/tables/projects.js'
import { placedReleases } from '../model/node.js'
import type { FleetHealth } from '../model/health.js'
import { createBroken, createHealth, fleetState, readStatus, readWaiting } from '../operate/machine/health.js'
import { createDeploymentCounts, createMetrics } from '../operate/machine/metrics.js'
import { createCpuMeter, createLoopDelayMeter, createResources, readDisk } from '../operate/machine/resources.js'
import { createHistory, createStats, createTakeFacts, type History } from '../operate/machine/history.js'
import type { Pm2 } from '../operate/pm2.js'
import { Quota, createStorage } from '../operate/machine/storage.js'
import { settingRows } from '../projects/settings.js'
import type { Terminals } from '../operate/terminal/sessions.js'
import type { LogSourceTable } from '../carry/transfer/needs.js'
import type { LogSourceRecord } from '../carry/transfer/package.js'
import { createFleet, type FleetService } from './fleet.js'
import type { Logs } from './logs.js'
import { createTrust } from '../http/outgoing/trust.js'
import { createSealing, type Front } from './front.js'
import type { World } from './world.js'
import type { Reporter } from './report.js'
import { maySwitchUser } from '../core/proc/identity.js'
import type { Reader } from '../core/store/database.js'
import { createOffers } from '../model/fleet-wire.js'
import { warningOfUsers } from '../model/project.js'

/** All services of the server that somebody outside the API uses, and those of the API. */
export interface Services {
  /** Returns the authorities that outgoing connections trust. */
  trust: ReturnType<typeof createTrust>
  deployer: Deployer
  pieces: Pieces
  archiveCheck: ArchiveCheck
  headers: CheckHeaders
  webhook: Webhook
  incidents: Incidents
  reminders: TokenReminders
  history: History
  logs: Door<Logs>
  terminals: Door<Terminals>
  /** What an agent of a fleet needs besides the deployer. */
  agent: Pick<World, 'store' | 'clock' | 'ids' | 'version'> & Pick<Work, 'projects' | 'variables'>
  fleet: FleetService
  /** The services that the API handlers need. */
  api: ApiServices
}

const bytesPerMegabyte = 1024 * 1024
const caCure = 'Put its successor into the file: it is read again'
/** Maximum number of bytes of large bodies in the directory for temporary files: in all, and of one caller. */
const spoolLimits = { all: 4096 * bytesPerMegabyte, each: { caller: 2048 * bytesPerMegabyte } }

/** Maximum number of deployments that are searched for recently used scripts. */
const searchedForScripts = 200

/** Builds all services behind the front. Each gets the others through the small interfaces that it declares. */
export function createServices(world: World, front: Front): Services {
  const { audit, settings } = front
  const watched = { followers: createActivity(), searches: createActivity() }
  const homes = secretHomes(world.home.directory)
  const logs = createDoor(async () => {
    const { createLogs } = await import('./logs.js')
    return createLogs(world, { ...watched, homes, audit, projects: work.projects })
  })
  const pm2 = createDoor(async () => (await import('../operate/pm2.js')).createPm2(world))
  const fleet = createFleet(world, front, () => work)
  const work = createWork(world, front, { pm2, logs, fleet })
  const machine = createMachine(world, front, work)
  front.listeners.hasUploads = tokenId => work.pieces.hasOf(tokenId)
  front.listeners.tokenLocked = lock => work.webhook.locked(lock)
  const terminals = createDoor(async () => {
    const [{ Terminals }, { createPtyLoader }] = await Promise.all([
      import('../operate/terminal/sessions.js'),
      import('../core/proc/pty.js')
    ])
    return new Terminals({
      ...world,
      isOffered: world.terminal,
      isEnabled: () => settings.flag('terminal_enabled'),
      loadPty: createPtyLoader(),
      audit: audit.record
    })
  })
  return {
    trust: work.trust,
    deployer: work.deployer,
    pieces: work.pieces,
    archiveCheck: work.archiveCheck,
    headers: work.headers,
    webhook: work.webhook,
    incidents: work.incidents,
    reminders: createTokenReminders({
      ...world,
      audit: front.audit,
      tokens: () => front.named.list(),
      send: reminder => work.webhook.remind(reminder)
    }),
    history: machine.history,
    logs,
    terminals,
    agent: { ...world, projects: work.projects, variables: work.variables },
    fleet,
    api: apiServices(world, front, { work, logs, watched, machine, fleet, terminals })
  }
}

/** Creates what tells others of deployments and incidents. */
function createNotices(world: World, { audit, keeper, settings }: Front, fleet: FleetService) {
  const { home, environment } = world
  const notificationTargets = createNotificationTargets({
    ...world,
    audit,
    settings,
    isProject: (db, id) => findProject(db, id) !== undefined
  })
  const trust = createTrust({
    path: () => settings.text('outgoing_ca'),
    expiring: expiresAtMs => world.expiry?.look({ name: 'A certificate of outgoing_ca', expiresAtMs, cure: caCure }),
    extraPath: environment['NODE_EXTRA_CA_CERTS']
  })
  const webhook = new Webhook({
    ...world,
    targets: notificationTargets,
    audit: audit.record,
    checkpoint: () => keeper.newest()?.note ?? null,
    trust
  })
  const incidents = createIncidents({
    ...world,
    tell: incident => webhook.incident(incident),
    disk: async () => ({ path: home.directory, ...(await readDisk(home.directory)) }),
    nodes: () => fleet.running()?.presence() ?? { lost: [], connected: new Set<string>() }
  })
  return { notificationTargets, trust, webhook, incidents }
}

/** Creates projects, deployments and notifications. */
function createWork(
  world: World,
  front: Front,
  { pm2, logs, fleet }: { pm2: Door<Pm2>; logs: Door<Logs>; fleet: FleetService }
) {
  const { audit, keeper, settings, serverKey } = front
  const { store, home, clock, ids, version, keys, log } = world
  const notices = createNotices(world, front, fleet)
  const { trust, webhook, incidents } = notices
  const counts = createDeploymentCounts()
  const quota = new Quota({ store, home, settings })
  const key = keys?.variables ?? createVariablesKey(home.variablesKey)
  const variables = new Variables({ store, clock, audit, key })
  const signingKeys = createDoor(async () => {
    const { createSigningKeys } = await import('../projects/signing-keys.js')
    return createSigningKeys({ store, clock, ids, audit })
  })
  const headers = createCheckHeaders({ store, key, log })
  const deployer = createDeployer({
    ...world,
    settings,
    quota,
    variables,
    headers,
    checks: {
      hosts: () => settings.list('gate_hosts'),
      trust,
      pm2: async appName => (await pm2()).binding(appName),
      log: async query => (await logs()).newLines(query),
      firstMatch: async (...given) => (await logs()).firstMatch(...given)
    },
    fleet: {
      begin: async (...given) => (await fleet.hub()).rolls.begin(...given),
      follow: async (...given) => (await fleet.hub()).rolls.follow(...given),
      revert: async (...given) => (await fleet.hub()).rolls.revert(...given),
      halt: async (...given) => (await fleet.hub()).rolls.halt(...given)
    },
    offers: createOffers(createSealing(store, key, 'rollout')),
    audit: event => void audit.record(event),
    auditWithin: audit.within,
    receipts: { key: serverKey, version },
    notify: occasion => webhook.notify(occasion),
    drifted: (projectId, files) =>
      void incidents.drifted(projectId, files).catch(error => log('Cannot tell of edited files', error)),
    ended(row) {
      counts.ended(row)
      keeper.sign()
      world.deploymentEnded?.(row)
    }
  })
  const pieces = new Pieces({
    home,
    ids,
    clock,
    quota,
    hasEnded: owner =>
      hasEnded(owner, {
        globalToken: () => settings.text('global_deploy_token'),
        projectToken: id => findProject(store, id)?.token,
        isRevoked: id => (findToken(store, id)?.revokedAt ?? null) !== null
      }),
    during: deployer.receiving,
    log
  })
  const archiveCheck = createArchiveCheck({
    ...world,
    uploads: () => deployer.figures().uploads.now,
    found: incidents.archives
  })
  const projects = new Projects({ ...world, audit, home: home.directory, deployments: deployer, headers })
  const deployments = createListed(store, deployer)
  const targets = createDoor(async () => (await import('../projects/targets.js')).createTargets())
  return {
    ...notices,
    counts,
    quota,
    variables,
    signingKeys,
    headers,
    deployer,
    pieces,
    archiveCheck,
    projects,
    deployments,
    targets,
    pm2,
    fleet
  }
}

type Work = ReturnType<typeof createWork>

/** Creates the services for the state of the server and of its machine. */
function createMachine(world: World, front: Front, work: Work) {
  const { store, home, clock, version, publicUrl } = world
  const { audit, settings, probe, startedAtMs } = front
  const { counts, deployer, quota, targets, variables } = work
  const health = createHealth({
    ...world,
    probe,
    secretsFault: () => variables.check(),
    auditState: async () => ({ ...front.keeper.state(), keyProblem: await front.keeper.keyProblem() }),
    unfinishedTargets: deployer.unfinishedTargets,
    archives: work.archiveCheck.state,
    certificates: world.expiry?.list,
    fleetState: fleetOf(store, work.fleet),
    cluster: world.cluster?.status,
    checksHostNames: () => publicUrl !== null || settings.list('allowed_hosts').length > 0
  })
  const history = createHistory({
    ...world,
    take: createTakeFacts({ directory: home.directory, ends: counts.totals })
  })
  const storage = createStorage({
    ...world,
    retention: deployer,
    quota,
    measureTargets: async (...given) => (await targets()).measure(...given),
    disk: health.disk,
    audit
  })
  const stats = createStats({ store, clock })
  const status = (projects?: ProjectScope) =>
    readStatus(store, { version, uptimeMs: elapsedOf(clock) - startedAtMs, projects })
  return { health, history, storage, stats, status }
}

type Machine = ReturnType<typeof createMachine>

/** What the services of the routes are made of. */
interface Made extends Pick<Services, 'fleet' | 'terminals'> {
  work: Work
  logs: Door<Logs>
  /** Counts the followers of log files, and the searches. */
  watched: { followers: Activity; searches: Activity }
  machine: Machine
}

/** The services that the routes call, and what only they use. */
function apiServices(world: World, front: Front, made: Made): ApiServices {
  return {
    ...made.machine,
    clock: world.clock,
    settings: front.settings,
    version: world.store.version,
    publicUrl: world.publicUrl,
    ownUrl: () => world.ownUrl?.() ?? null,
    base: world.base,
    ...accessServices(world, front),
    ...projectServices(world, front, made),
    ...deploymentServices(world, front, made),
    ...machineServices(world, front, made),
    ...carryServices(world, front, made),
    ...fleetServices(world, front, made)
  }
}

function accessServices({ store, clock }: World, front: Front) {
  const { admin, allowList, audit, factors, keeper, limiter, named, proof, settings, tickets, sessions } = front
  const builtIn = () => builtInTokens(store, settings)
  return {
    admin,
    allowList,
    named,
    factors,
    proof,
    limiter,
    sessions,
    tickets,
    accessReport: createAccessReport({
      store,
      clock,
      settings,
      tokens: () => named.list(),
      builtIn,
      mayClientsSendScripts: project => mayClientsSendScripts(project, settings.flag('allow_client_scripts'))
    }),
    builtInTokens: builtIn,
    adviceOf: token => adviceOf(token, { nowMs: clock.now(), rotateDays: settings.number('token_rotate_days') }),
    expiryOf: tokenId => named.get(tokenId).expiresAt,
    audit,
    listAudit: query => listAudit(store, query),
    proofs: createDoor(async () => (await import('../core/audit/export.js')).createProofs({ store, keeper })),
    keeper
  } satisfies Partial<ApiServices>
}

function projectServices({ store, clock, ids }: World, { audit }: Front, { work }: Made) {
  const { variables, signingKeys, projects, targets } = work
  return {
    lookup: {
      ofDeployment: id => findDeployment(store, id)?.projectId,
      ofLogSource: id => findLogSource(store, id)?.projectId,
      ofRollout: id => findRollout(store, id)?.projectId
    },
    projects,
    findProject: id => findProject(store, id),
    pinnedProjects: scope => listPinnedProjects(store, scope),
    newestProject: scope => newestProject(store, scope),
    bulk: (action, chosen, actor) => applyToProjects(projects, { action, ids: chosen, actor }),
    recentScripts(projectId) {
      projects.get(projectId)
      return recentScripts(listDeployments(store, { projectId, status: 'success', limit: searchedForScripts }))
    },
    variables,
    signingKeys,
    categories: createLabels('category', { store, clock, ids, audit }),
    tags: createLabels('tag', { store, clock, ids, audit }),
    targets,
    search: createDoor(async () => {
      const { createSearch } = await import('../projects/search.js')
      return createSearch({ store, settings: settingRows })
    })
  } satisfies Partial<ApiServices>
}

function deploymentServices({ store, home, publicUrl }: World, { settings }: Front, { work }: Made) {
  const { quota, deployer, deployments, pieces, projects } = work
  const live = {
    liveDeployment: (projectId: string) => (isPlaced(store, projectId) ? undefined : liveDeployment(store, projectId)),
    releasesOnNodes(projectId: string) {
      const nodes = new Map(nodesOfProject(store, projectId).map(node => [node.id, node]))
      return placedReleases(listPlacements(store, { projectId }), id => nodes.get(id)?.isDrained ?? false)
    }
  }
  const families = createDoor(() => import('../projects/families.js'))
  return {
    deployer,
    pieces,
    deployments,
    ...live,
    components: createDoor(async () => {
      const { createComponents } = await import('../projects/search.js')
      return createComponents({ store, sbomOf: id => join(home.deployments, `${id}.sbom.json`), ...live })
    }),
    families: async scope => (await families()).readFamilies(projects.list({ scope }), { store, ...live }),
    records: createRecords({ findDeployment: deployments.find, deployer, settings }),
    pageOf: id => deploymentPage(publicUrl, id),
    runsCommand(projectId, deployId) {
      const project = findProject(store, projectId)
      if (project === undefined) return false
      // What runs on the nodes of a project is not in the records of its hub.
      if (runsCommand(project) || isPlaced(store, projectId)) return true
      const source = deployId === undefined ? undefined : findDeployment(store, deployId)
      const sources = source === undefined ? listDeployments(store, { projectId, limit: searchedForScripts }) : [source]
      return sources.some(({ scripts }) => scripts.length > 0)
    },
    hasUnwritten: () => deployer.kept().length > 0,
    readMarks: scope => ({
      waiting: readWaiting(store, scope),
      failedInBackground: brokenInBackground(store, scope),
      placed: listPlaced(store, scope)
    }),
    quota,
    spool: createSpool({ directory: home.tmp, budget: createBudget({ ...spoolLimits, refuse: tooMuch }) })
  } satisfies Partial<ApiServices>
}

function machineServices(world: World, front: Front, { work, logs, watched, terminals }: Made) {
  const { store, home, clock, cluster } = world
  const { notificationTargets, webhook, deployer, deployments, pm2 } = work
  return {
    broken: createBroken({ store, findDeployment: deployments.find }),
    resources: createResources({ clock, cpu: createCpuMeter(), directory: home.directory }),
    metrics: createMetrics({
      ...world,
      startedAtMs: front.startedAtMs,
      deployments: work.counts,
      loopDelay: createLoopDelayMeter(),
      logFollowers: watched.followers,
      searches: watched.searches,
      uploads: () => deployer.figures().uploads,
      outputFollowers: () => deployer.figures().followers,
      deliveries: () => webhook.deliveries(),
      fleet: fleetOf(store, work.fleet),
      cluster: cluster?.status
    }),
    pm2,
    logs,
    terminals,
    notificationTargets,
    webhook,
    telemetry: {
      collector: createCollector({ store, clock }),
      maxDays: maxOverviewDays,
      reports: createRateLimit({ clock, perKey: 30, ofAll: 600 }),
      overviews: createRateLimit({ clock, perKey: 30, ofAll: 120 })
    }
  } satisfies Partial<ApiServices>
}

function carryServices(world: World, { audit, settings }: Front, { work }: Made) {
  return {
    transfer: createDoor(async () => {
      const { createTransfer } = await import('../carry/transfer/transfer.js')
      const { deployer, headers } = work
      return createTransfer({ ...world, audit, settings, deployments: deployer, headers, logSources: logSourceTable })
    }),
    backups: createDoor(async () => {
      const { createBackups } = await import('../carry/backup/backup.js')
      const failed = (reason: string): void =>
        void work.webhook.incident({ event: 'backup_failed', project: null, backup: { reason } })
      return createBackups({ ...world, audit, failed })
    })
  } satisfies Partial<ApiServices>
}

function fleetServices(world: World, { nodes }: Front, { fleet, work }: Made) {
  const { store, home, cluster } = world
  return {
    fleet: fleet.hub,
    relays: fleet.relays,
    agents: async () => (await fleet.hub()).agents,
    nodeRequests: nodes,
    async archivePath(id, signal) {
      await world.copies?.ensure(id, signal)
      await work.deployer.makeWhole(id)
      return join(home.deployments, `${id}.zip`)
    },
    nodesOf: id => nodesOfProject(store, id),
    refusePlaced(projectId) {
      const project = findProject(store, projectId)
      if (project !== undefined) refusePlaced(store, project, 'do this with')
    },
    cluster,
    hubs: world.hubUrls,
    hasFleet: fleet.isUsed
  } satisfies Partial<ApiServices>
}

/** Returns the function that reads the state of the fleet. */
function fleetOf(store: World['store'], { running }: FleetService): () => FleetHealth | null {
  return () => {
    const { connected = 0, outdated = 0 } = running()?.figures() ?? {}
    return fleetState(store, { connected, outdated })
  }
}

/** Returns the directories with secrets of svc. Commands of its user keep tokens in ~/.svc, wherever the data directory is. */
export function secretHomes(directory: string): string[] {
  return [...new Set(homesAround(directory).flatMap(namesOf)), join(userHome(), '.svc')]
}

/** Returns the data directory, and that of the hub whose agent's it is. */
function homesAround(directory: string): string[] {
  const parent = dirname(directory)
  return basename(directory) === nodeName && existsSync(join(parent, clusterFileName))
    ? [directory, parent]
    : [directory]
}

/** Returns a directory's given path and its real path. */
function namesOf(directory: string): string[] {
  return [...new Set([directory, realpathSync(directory)])]
}

/** Log sources for export packages. A kind that this version does not know becomes plain lines. */
const logSourceTable: LogSourceTable = {
  list: listLogSources,
  find: findLogSource,
  insert: (tx, source) => insertLogSource(tx, withKnownKind(source)),
  replace: (tx, source) => void updateLogSource(tx, source.id, withKnownKind(source))
}

function withKnownKind(source: LogSourceRecord): LogSource {
  return { ...source, kind: logKinds.find(kind => kind === source.kind) ?? 'plain' }
}

/** Returns the tokens that are not named, as the list of tokens shows them. */
function builtInTokens(store: World['store'], settings: Front['settings']): BuiltInToken[] {
  const plain = { projectId: null, projectName: null }
  const global: BuiltInToken[] = settings.text('global_deploy_token') === '' ? [] : [{ kind: 'global', ...plain }]
  const projects = readProjects(store, ['id', 'name']).map(({ id, name }): BuiltInToken => {
    return { kind: 'project', projectId: id, projectName: name }
  })
  return [{ kind: 'admin', ...plain }, ...global, ...projects]
}

/** Warns at the start of a server that can give each project a user, and names the projects that have none. */
export function warnOfUsers(store: Reader, report: Pick<Reporter, 'warn'>): void {
  const warning = maySwitchUser() ? warningOfUsers(readProjects(store, ['name', 'runAs'])) : null
  if (warning !== null) report.warn(warning)
}
