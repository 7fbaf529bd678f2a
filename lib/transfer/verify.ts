/*
 * What `svc verify` looks at (§4.13), each as a function of what was found, so that the same rules hold for a running
 * server, for a stopped one, and in a test.
 *
 * Errors are what breaks something now: a table or a project that is gone, a target that is no directory, a token that
 * a push would be refused with, a server that does not answer. Warnings are what is merely not there yet.
 */
import { countOf } from '../base/count.js'
import { stat } from 'node:fs/promises'
import { oneLine } from '../base/one-line.js'
import type { ProjectStatus } from '../model/project.js'
import type { Check, Finding } from '../model/transfer.js'
import type { Reader } from '../store/database.js'
import { readProjects } from '../store/tables/projects.js'

/** What verify needs to know of the database. */
export interface DatabaseState {
  missingTables: string[]
  projects: Array<{ id: string; name: string; deployPath: string; token: string; status: ProjectStatus }>
  deploymentCount: number
  /** Deployments whose project is not there. */
  orphans: Array<{ id: string; projectId: string }>
}

type PlaceKind = 'directory' | 'other' | 'missing' | 'unreadable'

export interface Found {
  /** null: there is no database. */
  database: DatabaseState | null
  /** Of the data directory. */
  directory: string
  globalConfig: { serverUrl?: string | undefined; projectToken?: Record<string, string> | undefined }
  /** What each deployPath is. */
  places: Map<string, PlaceKind>
  /** Of `--check-server`: the status of its answer, or why there was none; null: it was not asked. */
  server: { url: string; status: number } | { url: string; error: string } | null
}

const neededTables = ['projects', 'deployments', 'settings', 'categories', 'tags']
const maxOrphans = 100

/** Reads what verify needs; tables that are missing are an outcome. */
export function inspectDatabase(db: Reader): DatabaseState {
  const rows = db.all<{ name: string }>(`SELECT name FROM sqlite_master WHERE type = 'table'`)
  const missingTables = neededTables.filter(name => !rows.some(row => row.name === name))
  if (missingTables.length > 0) return { missingTables, projects: [], deploymentCount: 0, orphans: [] }
  const projects = readProjects(db, ['id', 'name', 'deployPath', 'token', 'status'])
  const deploymentCount = db.get<{ n: number }>('SELECT count(*) AS n FROM deployments')?.n ?? 0
  const orphans = db.all<{ id: string; projectId: string }>(
    `SELECT id, projectId FROM deployments
     WHERE projectId IN (SELECT DISTINCT projectId FROM deployments EXCEPT SELECT id FROM projects) LIMIT ?`,
    maxOrphans
  )
  return { missingTables, projects, deploymentCount, orphans }
}

/** Every finding, in the order of the checks; what is as it should be is one, too. */
export function judge(found: Found): Finding[] {
  return [...judgeDatabase(found), ...judgeProjects(found), ...judgeServerUrl(found), ...judgeServer(found)]
}

/** What a server can tell of itself: the database, and the directories that deployments go to. */
export function judgeServerSide(found: Pick<Found, 'database' | 'directory' | 'places'>): Finding[] {
  const places = (found.database?.projects ?? []).map(project => judgePlace(project, found.places.get(project.deployPath)))
  return [...judgeDatabase(found), ...places]
}

/** What is there under each deployPath. */
export async function lookAtPlaces(projects: ReadonlyArray<{ deployPath: string }>): Promise<Found['places']> {
  const places: Found['places'] = new Map()
  for (const { deployPath } of projects) places.set(deployPath, await placeOf(deployPath))
  return places
}

async function placeOf(deployPath: string): Promise<PlaceKind> {
  try {
    return (await stat(deployPath)).isDirectory() ? 'directory' : 'other'
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' || code === 'ENOTDIR' ? 'missing' : 'unreadable'
  }
}

/** Whether anything is broken; warnings break nothing. */
export function hasErrors(findings: readonly Finding[]): boolean {
  return findings.some(({ level }) => level === 'error')
}

function judgeDatabase({ database, directory }: Pick<Found, 'database' | 'directory'>): Finding[] {
  if (database === null) {
    return [error('database', null, `There is no database in "${directory}"`, 'Start the server once with "svc serve", or choose the data directory with SVC_HOME')]
  }
  const { missingTables, projects, deploymentCount, orphans } = database
  if (missingTables.length > 0) {
    const next = 'Restore svc.db from a backup, or import a package of "svc export" into an empty data directory'
    return [error('database', null, `The database has no table ${missingTables.join(', ')}`, next)]
  }
  const findings = [ok('database', `The projects table exists: ${countOf(projects.length, 'project')}`)]
  for (const { id, projectId } of orphans) {
    const next = 'Import a package that has the project, or remove the record with the sqlite3 program while no server runs'
    findings.push(error('deployments', id, `The deployment ${id} belongs to the project "${projectId}", which does not exist`, next))
  }
  if (orphans.length === 0) findings.push(ok('deployments', `Every deployment has its project: ${countOf(deploymentCount, 'deployment')}`))
  return findings
}

function judgeProjects({ database, globalConfig, places }: Found): Finding[] {
  return (database?.projects ?? []).flatMap(project => {
    return [judgePlace(project, places.get(project.deployPath)), judgeToken(project, globalConfig.projectToken?.[project.id])]
  })
}

type ProjectState = DatabaseState['projects'][number]

function judgePlace({ id, name, deployPath, status }: ProjectState, place: PlaceKind = 'missing'): Finding {
  const what = `The deployPath of "${name}", ${deployPath},`
  switch (place) {
    case 'directory': return { ...ok('deployPath', `${what} is a directory`), id }
    case 'other': return error('deployPath', id, `${what} is not a directory`, 'Move away what is there, or change the deployPath of the project')
    case 'unreadable': return error('deployPath', id, `${what} cannot be looked at by this user`, 'Run svc as the user that deploys, or give this one access')
    case 'missing':
      return status === 'idle'
        ? warning('deployPath', id, `${what} does not exist yet`, 'Nothing need be done: the first deployment makes it')
        : error('deployPath', id, `${what} does not exist`, `Deploy again ("svc push", or "svc rollback ${id}"), or correct the deployPath`)
  }
}

function judgeToken({ id, name, token }: ProjectState, kept: string | undefined): Finding {
  const next = 'Run "svc config:set token -" in the directory of the project, with the token that the panel shows'
  if (kept === undefined) return warning('token', id, `The global configuration has no deploy token of "${name}"`, `To push from this machine: ${next}`)
  if (kept !== token) return error('token', id, `The deploy token of "${name}" in the global configuration is not the server's`, next)
  return { ...ok('token', `The deploy token of "${name}" is the server's`), id }
}

function judgeServerUrl({ globalConfig }: Found): Finding[] {
  const { serverUrl } = globalConfig
  if (serverUrl) return [ok('serverUrl', `serverUrl is ${serverUrl}`)]
  return [warning('serverUrl', null, 'serverUrl is not configured', 'Run "svc config:set serverUrl http://127.0.0.1:5431 --global", with the address of the server')]
}

function judgeServer({ server }: Found): Finding[] {
  if (server === null) return []
  if ('error' in server) return [error('server', null, server.error, 'Start it with "svc serve", or correct serverUrl')]
  if (server.status < 500) return [ok('server', `The server at ${server.url} answers (${server.status})`)]
  return [error('server', null, `The server at ${server.url} answers ${server.status}`, 'Look at its output, or at the proxy before it')]
}

function ok(check: Check, message: string): Finding {
  return { check, level: 'ok', id: null, message: oneLine(message), next: null }
}

function warning(check: Check, id: string | null, message: string, next: string): Finding {
  return { check, level: 'warning', id, message: oneLine(message), next }
}

function error(check: Check, id: string | null, message: string, next: string): Finding {
  return { check, level: 'error', id, message: oneLine(message), next }
}
