import { invalid } from '../../base/refusal.js'
import type { DeploymentRow, DeploymentStatus } from '../../model/deployment.js'
import type { Reader, Transaction, Value } from '../database.js'
import { columnsOf } from './columns.js'

const columns = columnsOf<DeploymentRow>('deployments', {
  id: 'plain',
  projectId: 'plain',
  projectName: 'plain',
  status: 'plain',
  triggerSource: 'plain',
  startTime: 'plain',
  endTime: 'plain',
  duration: 'plain',
  rollbackOf: 'plain',
  message: 'plain',
  env: 'plain',
  hasArtifact: 'flag',
  archiveBytes: 'plain',
  archiveSha256: 'plain',
  fileCount: 'plain',
  errorMessage: 'plain',
  actorIp: 'plain',
  claimedIp: 'plain',
  placed: 'plain',
  provenance: 'json',
  steps: 'json',
  scripts: 'json'
})

const newestFirst = 'ORDER BY startTime DESC, position DESC'

export interface DeploymentFilter {
  projectId?: string
  status?: DeploymentStatus
  /** The claimed branch, exactly. */
  branch?: string
  /** The first digits of the claimed commit, in lower case. */
  commit?: string
  /** Only the newest deployment of each project. */
  newest?: true
}

/** Adds a record. */
export function insertDeployment(tx: Transaction, row: DeploymentRow): void {
  columns.insert(tx, row)
}

/** Writes the fields that are present; gives false where there is no such deployment. */
export function updateDeployment(tx: Transaction, id: string, patch: Partial<DeploymentRow>): boolean {
  return columns.update(tx, id, patch) > 0
}

/** One record by its id. */
export function findDeployment(db: Reader, id: string): DeploymentRow | undefined {
  return deploymentOf(db.get('SELECT * FROM deployments WHERE id = ?', id))
}

/** A page of records, newest first: at most `limit`, those older than `before` (an id; unknown: a refusal). */
export function listDeployments(
  db: Reader,
  { before, limit, ...filter }: DeploymentFilter & { limit: number; before?: string }
): DeploymentRow[] {
  const { conditions, values } = where(filter)
  if (before !== undefined) {
    const at = db.get<{ startTime: string; position: number }>(
      'SELECT startTime, position FROM deployments WHERE id = ?',
      before
    )
    if (at === undefined) throw invalid('before', `cannot list what came before "${before}": there is no such deployment`)
    conditions.push('(startTime, position) < (?, ?)')
    values.push(at.startTime, at.position)
  }
  return many(db.all(`SELECT * FROM deployments ${all(conditions)} ${newestFirst} LIMIT ?`, ...values, limit))
}

/** How many records there are. */
export function countDeployments(db: Reader, filter: DeploymentFilter = {}): number {
  const { conditions, values } = where(filter)
  return db.get<{ n: number }>(`SELECT count(*) AS n FROM deployments ${all(conditions)}`, ...values)?.n ?? 0
}

/** How many deployments of a status began on a day (UTC). */
export interface DayCount {
  date: string
  status: DeploymentStatus
  deployments: number
}

/** Each day and status since `from`, in order; days without any are left out. */
export function countDeploymentsByDay(db: Reader, from: string): DayCount[] {
  return db.all(
    'SELECT date, status, deployments FROM deploymentDays WHERE date >= ? AND deployments > 0 ORDER BY date, status',
    from
  )
}

/** How many deployments there are of each status; one that no deployment has may be left out. */
export function countDeploymentsByStatus(db: Reader): Partial<Record<DeploymentStatus, number>> {
  const rows = db.all<Omit<DayCount, 'date'>>('SELECT status, sum(deployments) AS deployments FROM deploymentDays GROUP BY status')
  return Object.fromEntries(rows.map(({ status, deployments }) => [status, deployments]))
}

/** Those that are queued or running, in order of arrival. */
export function unfinishedDeployments(db: Reader): DeploymentRow[] {
  return many(db.all(`SELECT * FROM deployments WHERE status IN ('queued', 'running') ORDER BY startTime, position`))
}

/** What says which files a deployment has. */
export interface DeploymentState {
  /** Of its row. */
  position: number
  id: string
  isOver: boolean
  hasArtifact: boolean
}

const states = 'SELECT position, id, status, hasArtifact FROM deployments'

/** The states of the deployments that come after a position, as they lie in the table, at most `limit` of them. */
export function deploymentStates(db: Reader, after = -1, limit = -1): DeploymentState[] {
  return db.all<StateRow>(`${states} WHERE position > ? ORDER BY position LIMIT ?`, after, limit).map(stateOf)
}

/** The state of the one at a position. */
export function deploymentStateAt(db: Reader, position: number): DeploymentState | undefined {
  return db.all<StateRow>(`${states} WHERE position = ?`, position).map(stateOf)[0]
}

interface StateRow {
  position: number
  id: string
  status: DeploymentStatus
  hasArtifact: number
}

function stateOf({ position, id, status, hasArtifact }: StateRow): DeploymentState {
  return { position, id, isOver: status === 'success' || status === 'failed', hasArtifact: hasArtifact === 1 }
}

/** The ids of a project's records. */
export function deploymentIdsOf(db: Reader, projectId: string): string[] {
  return db.all<{ id: string }>('SELECT id FROM deployments WHERE projectId = ?', projectId).map(({ id }) => id)
}

/** Removes a project's records; gives their ids, so that their files can go too. Costs less when the project has gone before. */
export function deleteDeploymentsOf(tx: Transaction, projectId: string): string[] {
  const ids = deploymentIdsOf(tx, projectId)
  tx.run('DELETE FROM deployments WHERE projectId = ?', projectId)
  return ids
}

/** When the newest deployment began, in milliseconds since the epoch; null: there is none. */
export function newestStartMs(db: Reader): number | null {
  const newest = db.get<{ at: string | null }>('SELECT max(startTime) AS at FROM deployments')?.at ?? null
  return newest === null ? null : Date.parse(newest)
}

/** The id of a project's deployment that is running, else of the one that has been queued for the longest. */
export function goingDeploymentId(db: Reader, projectId: string): string | undefined {
  const sql = 'SELECT id FROM deployments WHERE projectId = ? AND status = ? ORDER BY startTime, position LIMIT 1'
  const find = (status: DeploymentStatus): string | undefined => db.get<{ id: string }>(sql, projectId, status)?.id
  return find('running') ?? find('queued')
}

/**
 * The deployment whose files are in a project's target: the newest whose extraction completed, whatever its status and
 * whatever the clock said then. Undefined if none is known.
 */
export function liveDeployment(db: Reader, projectId: string): DeploymentRow | undefined {
  const sql = 'SELECT * FROM deployments WHERE projectId = ? AND placed IS NOT NULL ORDER BY placed DESC LIMIT 1'
  return deploymentOf(db.get(sql, projectId))
}

/**
 * Records that the files of a deployment are in its project's target now: it gets the number after the highest. One that
 * has a number keeps it, unless it was put there `again`.
 */
export function placeDeployment(tx: Transaction, id: string, { again = false } = {}): void {
  const next = `SELECT coalesce(max(other.placed), 0) + 1 FROM deployments AS other
    WHERE other.projectId = deployments.projectId AND other.placed IS NOT NULL`
  tx.run(`UPDATE deployments SET placed = (${next}) WHERE id = ?${again ? '' : ' AND placed IS NULL'}`, id)
}

/** A project's newest success whose archive is still kept. */
export function latestSuccessWithArchive(db: Reader, projectId: string): DeploymentRow | undefined {
  return deploymentOf(
    db.get(
      `SELECT * FROM deployments WHERE projectId = ? AND status = 'success' AND hasArtifact = 1 ${newestFirst} LIMIT 1`,
      projectId
    )
  )
}

/** A project's records whose archive is still kept, newest first. */
export function archivedDeployments(db: Reader, projectId: string): DeploymentRow[] {
  return many(db.all(`SELECT * FROM deployments WHERE projectId = ? AND hasArtifact = 1 ${newestFirst}`, projectId))
}

/** As the indexes have them (schema.ts). */
const branchOf = `json_extract(provenance, '$.branch')`
const commitOf = `json_extract(provenance, '$.commit')`
const newestOfEach = `position IN (SELECT (
  SELECT newer.position FROM deployments AS newer WHERE newer.projectId = projects.id ORDER BY startTime DESC, position DESC LIMIT 1
) FROM projects)`

function where({ projectId, status, branch, commit, newest }: DeploymentFilter): { conditions: string[]; values: Value[] } {
  const given = Object.entries({ projectId, status, [branchOf]: branch }).filter(([, value]) => value !== undefined)
  const conditions = given.map(([field]) => `${field} = ?`)
  const values: Value[] = given.map(([, value]) => value as string)
  if (branch !== undefined || commit !== undefined) conditions.push(`provenance <> 'null'`)
  if (commit !== undefined) {
    conditions.push(`${commitOf} >= ? AND ${commitOf} < ?`)
    // "g" comes after every hexadecimal digit.
    values.push(commit, `${commit}g`)
  }
  if (newest) conditions.push(newestOfEach)
  return { conditions, values }
}

function all(conditions: string[]): string {
  return conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
}

/** A row of the table as the model has it. */
export function deploymentOf(row: object | undefined): DeploymentRow | undefined {
  return row === undefined ? undefined : columns.decode(row)
}

function many(rows: object[]): DeploymentRow[] {
  return rows.map(row => columns.decode(row))
}
