import type { Caller } from '../auth/bearer.js'
import { type AccessRole, includesRole, type ProjectScope } from '../model/access.js'
import { json } from '../http/core/route.js'
import { type DeploymentRow, type DeploymentStatus, listedDeployment } from '../model/deployment.js'
import type { Overview, ProjectOverview, RecentDays, ServerStatus } from '../model/health.js'
import type { Proof } from '../auth/second-factor.js'
import type { Project } from '../model/project.js'
import type { Broken, Health } from '../machine/health.js'
import type { Stats } from '../machine/history.js'
import { invalid } from '../base/errors.js'
import { type Search, type SearchType, searchTypes } from '../search/search.js'
import { oneOf } from '../base/fields.js'
import { shownDeployment, shownProject } from './deployments.js'
import { type Handler, queryLimit } from './route.js'

/** Dependencies of the handlers of the overview. */
export interface OverviewNeeds {
  proof: Pick<Proof, 'isRecent'>
  status(scope: ProjectScope): ServerStatus
  health: Pick<Health, 'report'>
  stats: Pick<Stats, 'successRates'>
  broken: Broken
  deployments: {
    find(deployId: string): DeploymentRow | undefined
    list(query: { projectId?: string; projects?: ProjectScope; limit: number }): DeploymentRow[]
    count(query: { projectId?: string; projects?: ProjectScope; status?: DeploymentStatus }): number
    /** Returns the deployment whose files are in the project's target. */
    live(projectId: string): DeploymentRow | undefined
  }
  projects: {
    /** Refuses an unknown id with 404. */
    get(id: string): Project
    /** Returns the pinned projects, newest first. */
    pinned(scope: ProjectScope): Project[]
    newest(scope: ProjectScope): Project | undefined
  }
}

const maxDays = 366
const shownDeployments = 8
const shownBroken = 20
const shownOfProject = 20
/** Maximum number of rollbacks of rollbacks that are followed to find the upload. */
const maxRollbacks = 100

/** Handlers of the overviews of the server and of a project. Each replaces several requests of a panel page. */
export function overviewHandlers({ proof, status, health, stats, broken, deployments, projects }: OverviewNeeds) {
  /** Returns the upload whose archive the rollback deployed, or null if the deployment is not a rollback. */
  function sourceOf(row: DeploymentRow | undefined): DeploymentRow | null {
    if (row === undefined || row.rollbackOf === null) return null
    let at: DeploymentRow | undefined = row
    for (let i = 0; i < maxRollbacks && at !== undefined && at.rollbackOf !== null; i++)
      at = deployments.find(at.rollbackOf)
    return at === undefined || at.rollbackOf !== null ? null : at
  }

  return {
    /**
     * `GET /api/projects/:id/overview`: the live deployment, the failure and the last deployments (model/health.ts).
     */
    readProject: ({ params, actor }) => {
      const { id: projectId } = projects.get(params['id'] as string)
      const live = deployments.live(projectId)
      const source = sourceOf(live)
      const overview = {
        live: live === undefined ? null : shown(live, actor),
        liveSource: source === null ? null : shown(source, actor),
        broken: broken.of(projectId),
        deployments: deployments.list({ projectId, limit: shownOfProject }).map(row => shown(row, actor)),
        deploymentCount: deployments.count({ projectId })
      }
      return json(overview satisfies Shown<ProjectOverview>)
    },

    /** `GET /api/overview?days=`: the overview of the server (model/health.ts). */
    read: async ({ query, actor }) => {
      const scope = actor.projects
      const last = deployments.list({ limit: shownDeployments, projects: scope })
      const newest = last.length > 0 ? undefined : projects.newest(scope)
      const overview = {
        status: status(scope),
        health: await health.report(),
        runningCount: deployments.count({ status: 'running', projects: scope }),
        queuedCount: deployments.count({ status: 'queued', projects: scope }),
        broken: broken.list(shownBroken, scope),
        deployments: last.map(row => shown(row, actor)),
        pinned: projects.pinned(scope).map(({ id, name, env, status, lastDeployAt }) => {
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
export function searchHandlers({ search }: { search: Search }) {
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
