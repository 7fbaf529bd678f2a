/*
 * The checks of `svc verify` (§4.13). Each is a function of what was found, so that the same rules apply to a running
 * server, a stopped one, and a test.
 *
 * An error is something that breaks now: a missing table or project, a target that is not a directory, a token that the
 * server would refuse, a server that does not answer. A warning is something that does not exist yet.
 */
import { countOf, oneLine } from '../../base/text.js'
import { stat } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { hasCode } from '../../base/errors.js'
import type { ProjectStatus } from '../../model/project.js'
import type { Check, Finding } from '../../model/transfer.js'
import type { Reader } from '../../core/store/database.js'
import { rowReader, text, valueReader } from '../../core/store/tables/table.js'
import { countDeployments } from '../../core/store/tables/deployments.js'
import { withNodes } from '../../core/store/tables/fleet.js'
import { readProjects } from '../../core/store/tables/projects.js'
import { findDamage } from '../../core/archive/damage.js'

/** The parts of the database that verify checks. */
export interface DatabaseState {
  missingTables: string[]
  projects: Array<{
    id: string
    name: string
    deployPath: string
    token: string
    status: ProjectStatus
    /** Number of nodes that it is deployed on, instead of this server. */
    nodes: number
  }>
  deploymentCount: number
  /** Deployments whose project does not exist. */
  orphans: Array<{ id: string; projectId: string }>
}

/** The kind of file at a deployPath. */
type PlaceKind = 'directory' | 'other' | 'missing' | 'unreadable'

/** The facts that verify judges. */
export interface Found {
  /** Null if there is no database. */
  database: DatabaseState | null
  /** The data directory. */
  directory: string
  globalConfig: { serverUrl?: string | undefined; projectToken?: Record<string, string> | undefined }
  /** The kind of file at each deployPath. */
  places: Map<string, PlaceKind>
  /** Result of `--check-server`: the status of the server's answer, or why there was none; null if it was not asked. */
  server: { url: string; status: number } | { url: string; error: string } | null
}

const neededTables = ['projects', 'deployments', 'settings', 'categories', 'tags', 'placements']
const maxOrphans = 100
const readName = valueReader('sqlite_master.name', text)
const readOrphan = rowReader('deployments', { id: text, projectId: text })

/**
 * Reads what verify needs, in turns, so that other requests run in between. Missing tables are part of the result, not an
 * error.
 */
export async function inspectDatabase(db: Reader): Promise<DatabaseState> {
  const tables = db.all(`SELECT name FROM sqlite_master WHERE type = 'table'`).map(readName)
  const missingTables = neededTables.filter(name => !tables.includes(name))
  if (missingTables.length > 0) return { missingTables, projects: [], deploymentCount: 0, orphans: [] }
  const projects = withNodes(db, readProjects(db, ['id', 'name', 'deployPath', 'token', 'status']))
  await nextTurn()
  const deploymentCount = countDeployments(db)
  const orphaned = `SELECT id, projectId FROM deployments
    WHERE projectId IN (SELECT DISTINCT projectId FROM deployments EXCEPT SELECT id FROM projects) LIMIT ?`
  const orphans = db.all(orphaned, maxOrphans).map(readOrphan)
  return { missingTables, projects, deploymentCount, orphans }
}

/** Returns every finding, in the order of the checks; also those without a fault. */
export function judge(found: Found): Finding[] {
  return [...judgeDatabase(found), ...judgeProjects(found), ...judgeServerUrl(found), ...judgeServer(found)]
}

/** Returns the findings of a server on itself: on the database, and on the targets of deployments. */
export function judgeServerSide(found: Pick<Found, 'database' | 'directory' | 'places'>): Finding[] {
  const places = (found.database?.projects ?? []).map(project =>
    judgePlace(project, found.places.get(project.deployPath))
  )
  return [...judgeDatabase(found), ...places]
}

/** Returns what exists at each deployPath. */
export async function lookAtPlaces(projects: ReadonlyArray<{ deployPath: string }>): Promise<Found['places']> {
  const places: Found['places'] = new Map()
  for (const { deployPath } of projects) places.set(deployPath, await placeOf(deployPath))
  return places
}

async function placeOf(deployPath: string): Promise<PlaceKind> {
  try {
    return (await stat(deployPath)).isDirectory() ? 'directory' : 'other'
  } catch (error) {
    return hasCode(error, 'ENOENT', 'ENOTDIR') ? 'missing' : 'unreadable'
  }
}

/** Returns whether there is an error; warnings do not count. */
export function hasErrors(findings: readonly Finding[]): boolean {
  return findings.some(({ level }) => level === 'error')
}

function judgeDatabase({ database, directory }: Pick<Found, 'database' | 'directory'>): Finding[] {
  if (database === null) {
    return [
      error({
        check: 'database',
        id: null,
        message: `No database in "${directory}"`,
        next: 'Start the server once with "svc serve", or choose the data directory with SVC_HOME'
      })
    ]
  }
  const { missingTables, projects, deploymentCount, orphans } = database
  if (missingTables.length > 0) {
    const next = 'Restore svc.db from a backup, or import a package of "svc export" into an empty data directory'
    const message = `The database has no table ${missingTables.join(', ')}`
    return [error({ check: 'database', id: null, message, next })]
  }
  const findings = [ok('database', `The projects table exists: ${countOf(projects.length, 'project')}`)]
  for (const { id, projectId } of orphans) {
    const next =
      'Import a package that contains the project, or stop the server and remove the record with the sqlite3 program'
    const message = `The deployment ${id} belongs to the project "${projectId}", which does not exist`
    findings.push(error({ check: 'deployments', id, message, next }))
  }
  if (orphans.length === 0)
    findings.push(ok('deployments', `Every deployment has its project: ${countOf(deploymentCount, 'deployment')}`))
  return findings
}

function judgeProjects({ database, globalConfig, places }: Found): Finding[] {
  return (database?.projects ?? []).flatMap(project => {
    return [
      judgePlace(project, places.get(project.deployPath)),
      judgeToken(project, globalConfig.projectToken?.[project.id])
    ]
  })
}

type ProjectState = DatabaseState['projects'][number]

function judgePlace({ id, name, deployPath, status, nodes }: ProjectState, place: PlaceKind = 'missing'): Finding {
  if (nodes > 0) return { ...ok('deployPath', `"${name}" is deployed on ${countOf(nodes, 'node')}, not here`), id }
  const what = `The deployPath of "${name}", ${deployPath},`
  const about = { check: 'deployPath', id } as const
  switch (place) {
    case 'directory':
      return { ...ok('deployPath', `${what} is a directory`), id }
    case 'other':
      return error({
        ...about,
        message: `${what} is not a directory`,
        next: 'Move the existing file away, or change the deployPath of the project'
      })
    case 'unreadable':
      return error({
        ...about,
        message: `${what} is not accessible for this user`,
        next: 'Run svc as the user that deploys, or give this one access'
      })
    case 'missing':
      return status === 'idle'
        ? warning({
            ...about,
            message: `${what} does not exist yet`,
            next: 'Nothing to do: the first deployment creates it'
          })
        : error({
            ...about,
            message: `${what} does not exist`,
            next: `Deploy again ("svc push", or "svc files ${id} --repair"), or correct the deployPath`
          })
  }
}

function judgeToken({ id, name, token }: ProjectState, kept: string | undefined): Finding {
  const next = 'Run "svc config:set token -" in the directory of the project, with the token that the panel shows'
  if (kept === undefined)
    return warning({
      check: 'token',
      id,
      message: `The global configuration has no deploy token for "${name}"`,
      next: `To push from this machine: ${next}`
    })
  const message = `The deploy token for "${name}" in the global configuration differs from the server's`
  if (kept !== token) return error({ check: 'token', id, message, next })
  return { ...ok('token', `The deploy token for "${name}" matches the server's`), id }
}

function judgeServerUrl({ globalConfig }: Found): Finding[] {
  const { serverUrl } = globalConfig
  if (serverUrl) return [ok('serverUrl', `serverUrl is ${serverUrl}`)]
  return [
    warning({
      check: 'serverUrl',
      id: null,
      message: 'serverUrl is not configured',
      next: 'Run "svc config:set serverUrl http://127.0.0.1:5431 --global", with the address of the server'
    })
  ]
}

function judgeServer({ server }: Found): Finding[] {
  if (server === null) return []
  const about = { check: 'server', id: null } as const
  if ('error' in server) {
    return [error({ ...about, message: server.error, next: 'Start it with "svc serve", or correct serverUrl' })]
  }
  if (server.status < 500) return [ok('server', `The server at ${server.url} answers (${server.status})`)]
  return [
    error({
      ...about,
      message: `The server at ${server.url} answers ${server.status}`,
      next: 'Check the output of the server, or the proxy in front of it'
    })
  ]
}

function ok(check: Check, message: string): Finding {
  return { check, level: 'ok', id: null, message: oneLine(message), next: null }
}

function warning(finding: Omit<Finding, 'level'>): Finding {
  return { ...finding, level: 'warning', message: oneLine(finding.message) }
}

function error(finding: Omit<Finding, 'level'>): Finding {
  return { ...finding, level: 'error', message: oneLine(finding.message) }
}

const archiveAdvice = 'Restore it from a backup, or deploy this release again and delete the archive'

/** Returns what is wrong with the archives of a data directory, or that nothing is. */
export async function verifyArchives(deployments: string): Promise<Finding[]> {
  const { archives, damages } = await findDamage(deployments)
  if (damages.length === 0) return [ok('archives', `The archives are intact: ${countOf(archives, 'archive')}`)]
  return damages.map(({ deployId, message }) =>
    error({ check: 'archives', id: deployId, message, next: archiveAdvice })
  )
}
