/*
 * The checks of `svc verify` (§4.13). Each is a function of what was found, so that the same rules apply to a running
 * server, a stopped one, and a test.
 *
 * An error is something that breaks now: a missing table or project, a target that is not a directory, a token that the
 * server would refuse, a server that does not answer. A warning is something that does not exist yet.
 */
import { countOf, oneLine } from '../../base/text.js'
import { stat, readdir, readFile } from 'node:fs/promises'
import { hasCode, reasonOf } from '../../base/errors.js'
import type { ProjectStatus } from '../../model/project.js'
import type { Check, Finding } from '../../model/transfer.js'
import type { Reader } from '../../core/store/database.js'
import { rowReader, text, valueReader } from '../../core/store/tables/table.js'
import { countDeployments } from '../../core/store/tables/deployments.js'
import { withNodes } from '../../core/store/tables/fleet.js'
import { readProjects } from '../../core/store/tables/projects.js'
import { join } from 'node:path'
import { OpenFile } from '../../base/files.js'
import { createEntryReader } from '../../core/archive/entry-data.js'
import { type PackIndex, readIndex } from '../../core/archive/pack-index.js'
import { anyArchive, openKept, openPack } from '../../core/archive/pack-set.js'

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

/** Reads what verify needs. Missing tables are part of the result, not an error. */
export function inspectDatabase(db: Reader): DatabaseState {
  const tables = db.all(`SELECT name FROM sqlite_master WHERE type = 'table'`).map(readName)
  const missingTables = neededTables.filter(name => !tables.includes(name))
  if (missingTables.length > 0) return { missingTables, projects: [], deploymentCount: 0, orphans: [] }
  const projects = withNodes(db, readProjects(db, ['id', 'name', 'deployPath', 'token', 'status']))
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
            next: `Deploy again ("svc push", or "svc rollback ${id}"), or correct the deployPath`
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

/*
 * Reads every kept archive (`svc verify --archives`). A file is read once, however many archives share it, and what is
 * damaged in it is told with each release that it affects. Archives that are removed meanwhile are left out.
 */

const filePattern = /^(dep_[a-z2-7]{16})\.(zip|pack)$/
const indexPattern = /^(dep_[a-z2-7]{16})\.index$/

/** The damage of one file: by the number of the entry, or of all. */
interface Damage {
  name: string
  deployId: string
  isPack: boolean
  /** What is wrong with the whole file; null: with single entries. */
  whole: string | null
  entries: Map<number, string>
}

/** Returns what is wrong with the archives of a data directory, or that nothing is. */
export async function verifyArchives(deployments: string): Promise<Finding[]> {
  const names = await readdir(deployments).catch((): string[] => [])
  const damages: Damage[] = []
  for (const name of names) {
    const [, deployId, ending] = filePattern.exec(name) ?? []
    if (deployId === undefined) continue
    const damage = await readFileOf(deployments, { name, deployId, isPack: ending === 'pack' })
    if (damage !== null) damages.push(damage)
  }
  const affected = new Map<Damage, string[]>()
  for (const damage of damages) affected.set(damage, damage.isPack ? [] : [damage.deployId])
  const findings: Finding[] = []
  for (const name of names) {
    const [, deployId] = indexPattern.exec(name) ?? []
    if (deployId !== undefined && !names.includes(`${deployId}.zip`))
      findings.push(...(await readIndexOf(deployments, { name, deployId, names, affected })))
  }
  for (const [damage, ids] of affected) if (ids.length > 0) findings.push(findingOf(damage, ids))
  if (findings.length > 0) return findings
  const count = new Set(names.flatMap(name => /^(dep_[a-z2-7]{16})\.(zip|index)$/.exec(name)?.[1] ?? [])).size
  return [
    {
      check: 'archives',
      level: 'ok',
      id: null,
      message: `The archives are intact: ${countOf(count, 'archive')}`,
      next: null
    }
  ]
}

/** Reads all entries of a zip or a pack. Returns null if nothing is wrong, or if it is gone. */
async function readFileOf(
  directory: string,
  { name, deployId, isPack }: Pick<Damage, 'name' | 'deployId' | 'isPack'>
): Promise<Damage | null> {
  const entries = new Map<number, string>()
  const damage = (whole: string | null): Damage => ({ name, deployId, isPack, whole, entries })
  let file: OpenFile | null = null
  try {
    file = new OpenFile(join(directory, name))
    const pack = await openPack(file, deployId)
    const reader = createEntryReader({ file, fileSize: file.size })
    for (const [at, entry] of pack.entries.entries()) {
      await reader.read(entry, () => {}).catch(error => entries.set(pack.numberAt(at), reasonOf(error)))
    }
  } catch (error) {
    return hasCode(error, 'ENOENT') ? null : damage(reasonOf(error))
  } finally {
    file?.close()
  }
  return entries.size === 0 ? null : damage(null)
}

interface Reading {
  name: string
  deployId: string
  names: readonly string[]
  affected: Map<Damage, string[]>
}

/** Adds a release to the damages that affect it. Returns what is wrong with its index, or with packs that are missing. */
async function readIndexOf(directory: string, { name, deployId, names, affected }: Reading): Promise<Finding[]> {
  let index: PackIndex
  try {
    index = readIndex(await readFile(join(directory, name)), name)
  } catch (error) {
    return hasCode(error, 'ENOENT') ? [] : [ofRelease(deployId, reasonOf(error))]
  }
  let isExplained = false
  for (const [damage, ids] of affected) {
    const fileOf = (pack: string): string => (names.includes(`${pack}.pack`) ? `${pack}.pack` : `${pack}.zip`)
    const uses = index.packs.findIndex(pack => fileOf(pack) === damage.name)
    if (uses === -1 || !(damage.whole !== null || hasDamaged(index, uses, damage))) continue
    ids.push(deployId)
    isExplained = true
  }
  if (isExplained) return []
  try {
    const archive = await openKept(join(directory, `${deployId}.zip`), anyArchive)
    archive.close()
    return []
  } catch (error) {
    return hasCode(error, 'ENOENT') ? [] : [ofRelease(deployId, reasonOf(error))]
  }
}

function hasDamaged({ runs }: PackIndex, pack: number, { entries }: Damage): boolean {
  for (let at = 0; at < runs.length; at += 3) {
    const [first, count] = [runs[at + 1] as number, runs[at + 2] as number]
    if (runs[at] === pack)
      for (const number of entries.keys()) if (number >= first && number < first + count) return true
  }
  return false
}

const advice = 'Restore it from a backup, or deploy this release again and delete the archive'

function ofRelease(id: string, why: string): Finding {
  return { check: 'archives', level: 'error', id, message: `The archive of ${id} is damaged: ${why}`, next: advice }
}

function findingOf({ name, whole, entries, deployId }: Damage, ids: readonly string[]): Finding {
  const [first] = entries.values()
  const more = entries.size > 1 ? ` (and ${countOf(entries.size - 1, 'other entry', 'other entries')})` : ''
  const message = `"${name}" is damaged: ${whole ?? `${first}${more}`}. Affected releases: ${ids.join(', ')}`
  return { check: 'archives', level: 'error', id: deployId, message, next: advice }
}
