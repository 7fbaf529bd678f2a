import { waitReasons } from '../base/shared/api.js'
import { json } from '../http/core/route.js'
import type { Stats } from '../operate/machine/history.js'
import { metricsContentType } from '../operate/machine/metrics.js'
import { invalid, notFound, Refusal } from '../base/errors.js'
import { flag, integer, line, list, object, oneOf, optional, readFields, instant } from '../base/fields.js'
import {
  type ChangeTopic,
  changeTopics,
  type ChangeVersions,
  type Overview,
  type ProjectOverview,
  type RecentDays
} from '../model/health.js'
import type { Caller } from '../access/bearer.js'
import { type AccessRole, includesRole, type ProjectScope } from '../model/access.js'
import { type DeploymentRow, listedDeployment } from '../model/deployment.js'
import { type SearchType, searchTypes } from '../projects/search.js'
import { checkProject, type Handler, param, queryLimit, queryText } from './route.js'
import { shownDeployment, shownProject } from './records.js'
import type { ApiServices } from './services.js'
import { instantOf } from '../base/clock.js'
import { auditActions, isAuditAction } from '../base/shared/audit.js'
import { closest } from '../base/text.js'
import { streamHeaders } from '../http/core/reply.js'
import type { AuditReader } from '../core/store/tables/audit.js'

/** Handlers of the resource usage of the machine and the server (§4.11). */
export function systemHandlers({ resources, history }: ApiServices) {
  return {
    resources: async () => json(await resources.snapshot()),

    history: ({ query }) => json(history.read(queryLimit(query, 'step', { fallback: 1, max: 60 })))
  } satisfies Record<string, Handler>
}

/** Handler of `GET /api/health/detail` (§4.8): 200 if the server is healthy, otherwise 503 with the same fields. */
export function healthHandlers({ health }: ApiServices) {
  return {
    detail: async () => {
      const detail = await health.detail()
      return json(detail, health.isWell(detail) ? 200 : 503)
    }
  } satisfies Record<string, Handler>
}

/** Handler of `GET /metrics`: metrics in version 0.0.4 of the Prometheus text format. */
export function metricsHandlers({ metrics }: ApiServices) {
  return {
    read: async () => {
      const headers = { 'content-type': metricsContentType, 'cache-control': 'no-store' }
      return { kind: 'bytes', status: 200, body: Buffer.from(await metrics.text()), headers }
    }
  } satisfies Record<string, Handler>
}

const maxDays = 366

/** Handlers of statistics on the deployments of the last days. */
export function statsHandlers({ stats, projects }: ApiServices) {
  return {
    heatmap: ({ query, actor }) =>
      json(stats.heatmap(queryLimit(query, 'days', { fallback: 365, max: maxDays }), actor.projects)),

    successRate: ({ query, actor }) =>
      json(stats.successRates(queryLimit(query, 'days', { fallback: 30, max: maxDays }), actor.projects)),

    durations: ({ query, actor }) => {
      const projectId = queryText(query, 'projectId')
      if (projectId !== undefined) {
        checkProject(actor, projectId, () => notFound('Project', projectId))
        projects.get(projectId)
      }
      const days = queryLimit(query, 'days', { fallback: 30, max: maxDays })
      return json(stats.durations({ projectId, scope: actor.projects, days }))
    }
  } satisfies Record<string, Handler>
}

const maxKeep = 10_000

/** Fields of `POST /api/storage/clean`. */
export const cleanFields = {
  /** Whether to only report what would be removed. Default: false. */
  dryRun: optional(flag),
  /** Whether to remove files of deployments without a record. Default: false. */
  unrecorded: optional(flag),
  /** Removes only archives of this project. */
  projectId: optional(line({ min: 1, max: 100 })),
  /** Number of successful archives to keep per project, instead of the setting keep_archives. */
  keep: optional(integer(1, maxKeep))
}

/** Handlers of disk usage and cleaning (docs/decisions.md, "The data directory"). */
export function storageHandlers({ storage }: ApiServices) {
  return {
    usage: async () => json(await storage.usage()),

    clean: async request => {
      const {
        dryRun = false,
        unrecorded = false,
        projectId,
        keep
      } = readFields((await request.json()) ?? {}, cleanFields)
      const cleaned = await storage.clean({ dryRun, unrecorded, projectId, keep, actor: request.actor })
      const { archives, temporaryFiles, unrecordedFiles, unrecordedLeft, freedBytes } = cleaned
      return json({
        success: true,
        dryRun,
        removed: { archives, temporaryFiles, unrecordedFiles },
        unrecordedLeft,
        freedBytes
      })
    }
  } satisfies Record<string, Handler>
}

const topics = Object.keys(changeTopics) as ChangeTopic[]

/**
 * Handler of `GET /api/changes`: the version of each list. With this one small request, an idle page finds out which of
 * its lists to reload. The response is 304 if nothing has changed since the ETag of the previous response.
 */
export function changesHandlers({ version }: ApiServices) {
  return {
    read: () => json(Object.fromEntries(topics.map(topic => [topic, version(changeTopics[topic])])) as ChangeVersions)
  } satisfies Record<string, Handler>
}

/** The body of `POST /api/cluster/key`. */
export const rekeyFields = {
  /** The hubs that get the key: all that `GET /api/cluster` lists. */
  hubs: list(object({ name: line({ min: 1, max: 100 }), url: line({ min: 1, max: 2000 }) }), { min: 1, max: 100 })
}

/** Handlers of the cluster. */
export function clusterHandlers({ cluster, audit }: ApiServices) {
  return {
    read: async () => json({ success: true, cluster: cluster === undefined ? null : await cluster.status() }),

    rekey: async request => {
      const { hubs } = readFields(await request.json(), rekeyFields)
      if (cluster === undefined) {
        throw new Refusal('not_found', 'no_cluster', 'This server is not a hub of a cluster')
      }
      await cluster.rekey(hubs)
      const names = hubs.map(({ name }) => name)
      await audit.record({ action: 'cluster.rekey', actor: request.actor, target: names.join(', ') })
      return json({ success: true, hubs: names })
    }
  } satisfies Record<string, Handler>
}

/** Handlers of PM2 applications, and of the one that a project is bound to (§4.11). */
export async function pm2Handlers({ projects, ...doors }: ApiServices) {
  const [pm2, { sources }] = await Promise.all([doors.pm2(), doors.logs()])
  return {
    addLogs: async request => {
      const { id, pm2AppName } = projects.get(param(request, 'id'))
      const paths = await pm2.logFiles(pm2AppName)
      const present = new Set(sources.list(id).map(({ filePath }) => filePath))
      const missing = paths.filter(path => !present.has(path)).map(filePath => ({ filePath, kind: 'pm2' as const }))
      return json({
        success: true,
        items: missing.length === 0 ? [] : await sources.create(id, missing, request.actor)
      })
    },

    available: async () => json(await pm2.available()),
    apps: async () => json(await pm2.apps()),
    binding: async request => json(await pm2.binding(projects.get(param(request, 'id')).pm2AppName))
  } satisfies Record<string, Handler>
}

const shownDeployments = 8
const shownBroken = 25
const shownOfProject = 20
/** Maximum number of rollbacks of rollbacks that are followed to find the upload. */
const maxRollbacks = 100

/** Handlers of the overviews of the server and of a project. Each replaces several requests of a panel page. */
export function overviewHandlers(services: ApiServices) {
  const { proof, status, health, stats, broken, deployments, projects } = services
  const { liveDeployment, releasesOnNodes, pinnedProjects, newestProject, deployer } = services
  /** Returns the upload whose archive the rollback deployed, or null if the deployment is not a rollback. */
  function sourceOf(row: DeploymentRow | undefined): DeploymentRow | null {
    if (row === undefined || row.rollbackOf === null) return null
    let at: DeploymentRow | undefined = row
    for (let i = 0; i < maxRollbacks && at !== undefined && at.rollbackOf !== null; i++)
      at = deployments.find(at.rollbackOf)
    return at === undefined || at.rollbackOf !== null ? null : at
  }

  return {
    readProject: ({ params, actor }) => {
      const { id: projectId } = projects.get(params['id'] as string)
      const live = liveDeployment(projectId)
      const source = sourceOf(live)
      const { keys: _, ...signatures } = deployer.signatureDemand(projectId)
      const overview = {
        live: live === undefined ? null : shown(live, actor),
        liveSource: source === null ? null : shown(source, actor),
        broken: broken.of(projectId),
        deployments: deployments.list({ projectId, limit: shownOfProject }).map(row => shown(row, actor)),
        deploymentCount: deployments.count({ projectId }),
        releases: releasesOnNodes(projectId),
        ...(signatures.require !== 'off' && { signatures })
      }
      return json(overview satisfies Shown<ProjectOverview>)
    },

    families: async ({ actor }) => json({ success: true, families: await services.families(actor.projects) }),

    read: async ({ query, actor }) => {
      const scope = actor.projects
      const last = deployments.list({ limit: shownDeployments, projects: scope })
      const newest = last.length > 0 ? undefined : newestProject(scope)
      const { waiting } = services.readMarks(scope)
      // What waits for an approval or for its time is in no queue.
      const notBegun = waiting.filter(each => waitReasons.some(reason => reason === each.for))
      const overview = {
        status: status(scope),
        health: await health.report(),
        runningCount: deployments.count({ status: 'running', projects: scope }),
        queuedCount: Math.max(0, deployments.count({ status: 'queued', projects: scope }) - notBegun.length),
        broken: broken.list(shownBroken, scope),
        waiting,
        deployments: last.map(row => shown(row, actor)),
        pinned: pinnedProjects(scope).map(({ id, name, env, status, lastDeployAt }) => {
          return { id, name, env, status, lastDeployAt }
        }),
        newestProject: newest === undefined ? null : shownProject(newest, actor, proof),
        days: query.has('days')
          ? recentDays(stats, queryLimit(query, 'days', { fallback: maxDays, max: maxDays }), scope)
          : null
      }
      return json(overview satisfies Shown<Overview>)
    }
  } satisfies Record<string, Handler>
}

function recentDays(stats: Pick<Stats, 'successRates'>, days: number, scope: ProjectScope): RecentDays {
  const { points } = stats.successRates(days, scope)
  const items = points.map(({ date, success, failed }) => ({ date, success, failed }))
  return { today: points.at(-1)?.date ?? '', items: items.filter(({ success, failed }) => success + failed > 0) }
}

/** An overview in which the caller may not see every text. */
type Shown<T> = { [Key in keyof T]: unknown }

function shown(
  row: DeploymentRow,
  actor: Caller
): ReturnType<typeof shownDeployment<ReturnType<typeof listedDeployment>>> {
  return shownDeployment(listedDeployment(row), actor)
}

const maxQueryLength = 200
const readType = oneOf(searchTypes)

/** Handler of `GET /api/search`: searches projects, deployments, log sources, the audit log and settings. */
export async function searchHandlers(doors: ApiServices) {
  const search = await doors.search()
  return {
    find: ({ query, actor }) => {
      const q = (query.get('q') ?? '').trim()
      if (q.length > maxQueryLength)
        throw invalid('q', `"q" is too long: at most ${maxQueryLength} characters are allowed`)
      const types = (query.get('types') ?? '')
        .split(',')
        .filter(Boolean)
        .map(type => readType(type, 'types'))
      const limit = queryLimit(query, 'limit', { fallback: 5, max: 50 })
      const seen = searchTypes.filter(type => maySearch(actor, type))
      const wanted = types.length === 0 ? seen : seen.filter(type => types.includes(type))
      return json(search.find({ q, types: wanted, limit, scope: actor.projects }))
    }
  } satisfies Record<string, Handler>
}

/** Whether a caller may read what a type of results shows: settings and the whole audit log are for few. */
function maySearch({ token, role, projects }: Caller, type: SearchType): boolean {
  if (token === undefined) return true
  if (type === 'settings') return role === 'admin'
  return type !== 'audit' || (projects === null && includesRole(role as AccessRole, 'operator'))
}

/** What an export holds while its client does not read: a block of entries. */
const exportedBytes = 256 * 1024

/** Handlers of the audit log. */
export async function auditHandlers({ listAudit, keeper, audit, clock, ...doors }: ApiServices) {
  const proofs = await doors.proofs()
  return {
    list: ({ query, actor }) => {
      const action = queryText(query, 'action')
      const before = queryText(query, 'before')
      const items = listAudit({
        action,
        projectId: queryText(query, 'projectId'),
        tokenId: queryText(query, 'tokenId'),
        tokenName: queryText(query, 'tokenName'),
        seenBy: readerOf(actor),
        since: queryTime(query, 'since'),
        until: queryTime(query, 'until'),
        before,
        limit: queryLimit(query, 'limit', { fallback: 100, max: 500 })
      })
      // An earlier version may have recorded an action that this one does not know.
      if (items.length === 0 && before === undefined && action !== undefined && !isAuditAction(action))
        throw unknownAction(action)
      return json({ items })
    },

    checkpoint: async () => json(await proofs.checkpoint()),

    proof: ({ query }) => {
      const from = querySize(query, 'from')
      if (from === undefined) throw invalid('from', 'The parameter "from" is missing')
      return json(proofs.consistency(from, querySize(query, 'to')))
    },

    inclusion: async ({ query }) => {
      const id = queryText(query, 'id')
      if (id === undefined) throw invalid('id', 'The parameter "id" is missing')
      return json(await proofs.inclusion(id))
    },

    rotateKey: async ({ actor }) => json({ success: true, ...(await keeper.rotateKey(actor)) }),

    export: async ({ query, actor }) => {
      const range = { from: queryNumber(query, 'from'), to: queryNumber(query, 'to') }
      await audit.record({ action: 'audit.export', actor })
      const pieces = await proofs.export(range)
      const at = instantOf(clock).slice(0, 19).replaceAll(':', '-')
      return {
        kind: 'stream',
        status: 200,
        heldBytes: exportedBytes,
        headers: {
          ...streamHeaders,
          'content-type': 'application/x-ndjson',
          'content-disposition': `attachment; filename="svc-audit-${at}.jsonl"`
        },
        async run(sink) {
          for await (const piece of pieces) await sink.write(piece)
        }
      }
    }
  } satisfies Record<string, Handler>
}

/** Reads a time in the query, as the text that the log has. */
function queryTime(query: URLSearchParams, field: string): string | undefined {
  const given = queryText(query, field)
  return given === undefined ? undefined : new Date(instant(given, field)).toISOString()
}

function unknownAction(action: string): Refusal {
  const near = closest(action, auditActions)
  const hint = near === undefined ? '' : `Did you mean "${near}"? `
  const known = auditActions.join(', ')
  return invalid('action', `"action" is "${action}": svc does not record such an action. ${hint}Known: ${known}`)
}

/** Reads the size of a tree in the query. */
function querySize(query: URLSearchParams, field: string): number | undefined {
  const given = queryText(query, field)
  if (given === undefined || /^\d{1,15}$/.test(given)) return given === undefined ? undefined : Number(given)
  throw invalid(field, `"${field}" is "${given}": expected the size of a tree, a whole number from 0`)
}

/** Reads the number of an entry in the query. */
function queryNumber(query: URLSearchParams, field: string): number | undefined {
  const given = querySize(query, field)
  if (given !== 0) return given
  throw invalid(field, `"${field}" is 0: entries are numbered from 1`)
}

/**
 * Viewers and deployers read their own entries, an operator also those of its projects. Undefined: the caller reads all.
 */
function readerOf({ token, role, projects }: Caller): AuditReader | undefined {
  if (token === undefined) return undefined
  const isOperator = includesRole(role as AccessRole, 'operator')
  if (isOperator && projects === null) return undefined
  return { tokenId: token.id, projects: isOperator ? (projects ?? []) : [] }
}
