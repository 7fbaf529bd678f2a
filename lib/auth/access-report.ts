import type { Clock } from '../base/clock.js'
import { includesRole, isInScope, type AccessToken, type BuiltInToken } from '../model/access.js'
import type { AccessReport, ReportedBuiltIn, ReportedToken } from '../model/access-report.js'
import type { Project } from '../model/project.js'
import { adviceOf, daysLeftOf, isValidToken, secretDaysOf } from '../model/token-advice.js'
import type { Store } from '../store/database.js'
import { lastActs } from '../store/tables/access.js'
import { readProjects } from '../store/tables/projects.js'

/** Dependencies of the report. */
export interface AccessReportNeeds {
  store: Pick<Store, 'all' | 'get'>
  clock: Pick<Clock, 'now'>
  settings: { number(key: 'token_rotate_days'): number; list(key: 'allowed_ips'): readonly string[] }
  tokens(): readonly AccessToken[]
  builtIn(): readonly BuiltInToken[]
  /** Whether an upload to a project may contain scripts. */
  mayClientsSendScripts(project: Pick<Project, 'allowClientScripts'>): boolean
}

/** Creates the report of which tokens can deploy where. */
export function createAccessReport(needs: AccessReportNeeds): () => AccessReport {
  const { store, clock, settings } = needs

  function reported(token: AccessToken, nowMs: number): ReportedToken {
    const { id, name, role, projectIds, allowedIps, createdBy, expiresAt, lastUsedAt, lastUsedIp, secondFactor } = token
    return {
      id,
      name,
      role,
      projectIds,
      allowedIps,
      createdBy,
      expiresAt,
      lastUsedAt,
      lastUsedIp,
      secondFactor,
      daysLeft: daysLeftOf(token, nowMs),
      secretDays: secretDaysOf(token, nowMs),
      advice: adviceOf(token, { nowMs, rotateDays: settings.number('token_rotate_days') })
    }
  }

  return () => {
    const nowMs = clock.now()
    const tokens = needs.tokens().filter(token => isValidToken(token, nowMs))
    const deployers = tokens.filter(({ role }) => includesRole(role, 'deployer'))
    const acts = lastActs(store)
    return {
      at: new Date(nowMs).toISOString(),
      rotateDays: settings.number('token_rotate_days'),
      allowedIps: [...settings.list('allowed_ips')],
      tokens: tokens.map(token => reported(token, nowMs)),
      builtIn: needs.builtIn().map(({ kind, projectId }): ReportedBuiltIn => {
        return { kind, projectId, lastUsedAt: acts.get(actorOf(kind, projectId)) ?? null }
      }),
      projects: readProjects(store, ['id', 'name', 'allowClientScripts', 'runAs']).map(project => {
        const { id, name, runAs } = project
        const tokenIds = deployers.filter(({ projectIds }) => isInScope(projectIds, id)).map(token => token.id)
        return { id, name, clientScripts: needs.mayClientsSendScripts(project), runAs, tokenIds }
      })
    }
  }
}

/** Returns the name of a built-in token in the audit log. */
function actorOf(kind: BuiltInToken['kind'], projectId: string | null): string {
  if (kind === 'admin') return 'admin'
  return kind === 'global' ? 'global-deploy' : `project:${projectId}`
}
