import { waitReasons } from '../../../base/shared/api.js'
import { invalid, notFound } from '../../../base/errors.js'
import type { ProjectScope } from '../../../model/access.js'
import {
  type CheckResult,
  type Decision,
  type DeploymentRow,
  type DeploymentStatus,
  deploymentStatuses,
  type DeploymentStep,
  holdReasons,
  type RanScript,
  revertReasons,
  type ScriptProcess,
  scriptSteps,
  stepNames,
  triggerSources
} from '../../../model/deployment.js'
import type { Provenance } from '../../../model/provenance.js'
import type { SignedBy, StatementClaim } from '../../../model/statement.js'
import type { Reader, Row, Transaction } from '../database.js'
import { deleteReceiptsOf } from './receipts.js'
import {
  among,
  choice,
  type Column,
  type Conditions,
  equalities,
  flag,
  isObject,
  isOneOf,
  json,
  jsonList,
  nullable,
  number,
  rowReader,
  tableOf,
  text,
  texts,
  valueReader,
  where
} from './table.js'

const isStepName = isOneOf(stepNames)
const isScriptStep = isOneOf(scriptSteps)

/** The column of a deployment's steps. */
export const steps: Column<DeploymentStep[]> = jsonList('steps', isStep)

const deployments = tableOf<DeploymentRow>('deployments', {
  id: text,
  projectId: text,
  projectName: text,
  status: choice(deploymentStatuses),
  triggerSource: choice(triggerSources),
  startTime: text,
  endTime: nullable(text),
  duration: nullable(text),
  rollbackOf: nullable(text),
  exact: flag,
  undoOf: nullable(text),
  promotedFrom: nullable(text),
  override: nullable(text),
  message: nullable(text),
  env: text,
  hasArtifact: flag,
  archiveBytes: nullable(number),
  archiveSha256: nullable(text),
  uploadedBytes: nullable(number),
  reusedFrom: nullable(text),
  fileCount: nullable(number),
  errorMessage: nullable(text),
  actor: nullable(text),
  tokenId: nullable(text),
  actorIp: nullable(text),
  claimedIp: nullable(text),
  traceId: nullable(text),
  placed: nullable(number),
  provenance: json('provenance', isProvenance),
  treeSha256: nullable(text),
  signedBy: jsonList('signers', isSigner),
  statement: json('a statement', isClaim),
  heldFor: nullable(choice([...holdReasons, ...waitReasons])),
  holdUntil: nullable(text),
  startAt: nullable(text),
  approvals: jsonList('approvals', isDecision),
  confirmSeconds: nullable(number),
  revertedAt: nullable(text),
  revertReason: nullable(choice(revertReasons)),
  checks: jsonList('checks', isCheck),
  steps,
  scripts: jsonList('scripts', isScript)
})

export const readDeployment = deployments.read

const readAge = rowReader<DeploymentAge>('deployments', { orderedAt: text, position: number })
const readId = valueReader('deployments.id', text)
const readCount = valueReader('count of deployments', number)
const readNewest = valueReader('deployments.startTime', nullable(text))

const newestFirst = 'ORDER BY orderedAt DESC, position DESC'

export interface DeploymentFilter {
  projectId?: string
  /** The projects that the caller may see. */
  projects?: ProjectScope
  status?: DeploymentStatus
  /** The claimed branch; an exact match. */
  branch?: string
  /** The first digits of the claimed commit, in lower case. */
  commit?: string
  traceId?: string
  /** Whether only the newest deployment of each project matches. */
  newest?: true
}

/** The place of a deployment in the order of all: never a time that a clock shows. */
export interface DeploymentAge {
  orderedAt: string
  position: number
}

/** Adds a record from elsewhere, whose time gives its place among the others. */
export function insertDeployment(tx: Transaction, row: DeploymentRow): void {
  deployments.insert(tx, row)
  tx.run('UPDATE deployments SET orderedAt = startTime WHERE id = ?', row.id)
}

/** Adds the record of a deployment that begins now. It is the newest, also if the clock was set back. */
export function addDeployment(tx: Transaction, row: DeploymentRow): void {
  deployments.insert(tx, row)
  tx.run(
    'UPDATE deployments SET orderedAt = max(startTime, (SELECT max(orderedAt) FROM deployments)) WHERE id = ?',
    row.id
  )
}

/** Returns the place of a deployment in the order of all; undefined if there is no such record. */
export function ageOfDeployment(db: Reader, id: string): DeploymentAge | undefined {
  return db.all('SELECT orderedAt, position FROM deployments WHERE id = ?', id).map(readAge)[0]
}

/** Compares two deployments for a list that begins with the newest. */
export function newerFirst(one: DeploymentAge, other: DeploymentAge): number {
  if (one.orderedAt !== other.orderedAt) return one.orderedAt < other.orderedAt ? 1 : -1
  return other.position - one.position
}

/** Writes the fields that are present; returns false if there is no such deployment. */
export const updateDeployment = deployments.update

export const findDeployment = deployments.find

/** Returns a deployment. Refuses: 404. */
export function requireDeployment(db: Reader, id: string): DeploymentRow {
  const row = findDeployment(db, id)
  if (row === undefined) throw notFound('Deployment', id)
  return row
}

/**
 * Returns a page of at most `limit` records, newest first. `before` is the id of a record: only older ones are listed.
 * Refuses a `before` that is unknown, or not visible to the caller.
 */
export function listDeployments(
  db: Reader,
  { before, limit, ...filter }: DeploymentFilter & { limit: number; before?: string }
): DeploymentRow[] {
  const { conditions, values } = conditionsOf(filter)
  if (before !== undefined) {
    const seen = among({ conditions: ['id = ?'], values: [before] }, 'projectId', filter.projects)
    const sql = `SELECT orderedAt, position FROM deployments ${where(seen.conditions)}`
    const [at] = db.all(sql, ...seen.values).map(readAge)
    if (at === undefined) throw invalid('before', `Cannot list deployments before "${before}": no such deployment`)
    conditions.push('(orderedAt, position) < (?, ?)')
    values.push(at.orderedAt, at.position)
  }
  const sql = `SELECT * FROM deployments ${where(conditions)} ${newestFirst} LIMIT ?`
  return db.all(sql, ...values, limit).map(readDeployment)
}

/** Projects whose newest records are read at the same time, and ids in a page: each takes a few milliseconds. */
const [projectsTogether, idsInPage] = [100, 20]

/**
 * Yields the ids of the newest `total` records and of the newest `each` of every project, newest first, in pages. A project
 * that is deployed often leaves place for the others. There can be tens of thousands: between two pages, of which the first
 * ones are empty, others are served.
 */
export function* newestOfEvery(
  db: Reader,
  { projects, total, each }: { projects?: ProjectScope; total: number; each: number }
): Generator<string[]> {
  const { conditions, values } = among({ conditions: [], values: [] }, 'projectId', projects)
  const newest = `SELECT id, orderedAt, position FROM deployments ${where(conditions)} ${newestFirst} LIMIT ?`
  const lists = [db.all(newest, ...values, total).map(readPlace)]
  const scope = among({ conditions: [], values: [] }, 'id', projects)
  const ids = db.all(`SELECT id FROM projects ${where(scope.conditions)}`, ...scope.values).map(readId)
  const some = `SELECT newer.id, newer.orderedAt, newer.position FROM json_each(?) AS wanted
    CROSS JOIN deployments AS newer ON newer.position IN (
      SELECT position FROM deployments WHERE projectId = wanted.value ${newestFirst} LIMIT ?
    ) ORDER BY newer.orderedAt DESC, newer.position DESC`
  for (let from = 0; from < ids.length; from += projectsTogether) {
    yield []
    const wanted = JSON.stringify(ids.slice(from, from + projectsTogether))
    lists.push(db.all(some, wanted, each).map(readPlace))
  }
  yield* merged(lists.map(list => list.reverse()))
}

const readPlace = rowReader<DeploymentAge & { id: string }>('deployments', {
  id: text,
  orderedAt: text,
  position: number
})

/** Yields the ids of lists that end with the newest, each id once, newest first. */
function* merged(lists: Array<Array<DeploymentAge & { id: string }>>): Generator<string[]> {
  let page: string[] = []
  let last = ''
  for (;;) {
    let from = lists[0]
    for (const list of lists) {
      const [head, best] = [list.at(-1), from?.at(-1)]
      if (head !== undefined && (best === undefined || newerFirst(head, best) < 0)) from = list
    }
    const first = from?.pop()
    if (first === undefined) return yield page
    if (first.id !== last) page.push((last = first.id))
    if (page.length < idsInPage) continue
    yield page
    page = []
  }
}

/** Returns the number of records that match. */
export function countDeployments(db: Reader, filter: DeploymentFilter = {}): number {
  const { conditions, values } = conditionsOf(filter)
  return db.all(`SELECT count(*) FROM deployments ${where(conditions)}`, ...values).map(readCount)[0] ?? 0
}

/** The number of deployments of a status that began on a day (UTC). */
interface DayCount {
  date: string
  status: DeploymentStatus
  deployments: number
}

const countColumns = { status: choice(deploymentStatuses), deployments: number }
const readDay = rowReader<DayCount>('deploymentDays', { date: text, ...countColumns })
const readStatusCount = rowReader<Omit<DayCount, 'date'>>('deploymentDays', countColumns)

/** Returns the counts of each day and status since `from`, in order; zero counts are omitted. `projects` limits them. */
export function countDeploymentsByDay(db: Reader, from: string, projects?: ProjectScope): DayCount[] {
  if (projects == null) {
    const sql =
      'SELECT date, status, deployments FROM deploymentDays WHERE date >= ? AND deployments > 0 ORDER BY date, status'
    return db.all(sql, from).map(readDay)
  }
  const sql = `SELECT substr(startTime, 1, 10) AS date, status, count(*) AS deployments FROM deployments
    WHERE startTime >= ? AND projectId IN (SELECT value FROM json_each(?)) GROUP BY 1, 2 ORDER BY 1, 2`
  return db.all(sql, from, JSON.stringify(projects)).map(readDay)
}

/** Returns the number of deployments of each status; a status without deployments may be omitted. */
export function countDeploymentsByStatus(
  db: Reader,
  projects?: ProjectScope
): Partial<Record<DeploymentStatus, number>> {
  const counts: Partial<Record<DeploymentStatus, number>> = {}
  const { conditions, values } = among({ conditions: [], values: [] }, 'projectId', projects)
  const rows =
    projects == null
      ? db.all('SELECT status, sum(deployments) AS deployments FROM deploymentDays GROUP BY status')
      : db.all(
          `SELECT status, count(*) AS deployments FROM deployments ${where(conditions)} GROUP BY status`,
          ...values
        )
  for (const { status, deployments } of rows.map(readStatusCount)) counts[status] = deployments
  return counts
}

/** Returns the deployments that are queued or running, in order of arrival. */
export function unfinishedDeployments(db: Reader): DeploymentRow[] {
  const sql = `SELECT * FROM deployments WHERE status IN ('queued', 'running') ORDER BY orderedAt, position`
  return db.all(sql).map(readDeployment)
}

/** Whether a deployment is queued or running that waits for nobody: neither for a time nor for a decision. */
export function isDeploying(db: Reader): boolean {
  return unfinishedDeployments(db).some(({ heldFor }) => heldFor === null)
}

/** Returns the deployments that are held until somebody confirms them, or until they go back. */
export function unconfirmedDeployments(db: Reader, projects?: ProjectScope): DeploymentRow[] {
  const wanted = among(equalities({ status: 'running', heldFor: 'confirm' }), 'projectId', projects)
  const sql = `SELECT * FROM deployments ${where(wanted.conditions)} ORDER BY orderedAt, position`
  return db.all(sql, ...wanted.values).map(readDeployment)
}

/** Returns the deployments that wait for an approval, or for their time. */
export function waitingDeployments(db: Reader, projects?: ProjectScope): DeploymentRow[] {
  const wanted = among(among(equalities({ status: 'queued' }), 'heldFor', waitReasons), 'projectId', projects)
  const sql = `SELECT * FROM deployments ${where(wanted.conditions)} ORDER BY orderedAt, position`
  return db.all(sql, ...wanted.values).map(readDeployment)
}

/**
 * Returns the newest release of a project that arrived after a deployment and is, or was, in place; undefined: there is none.
 * A rollback, an undo or a repair is no release.
 */
export function laterRelease(db: Reader, { id, projectId }: DeploymentRow): DeploymentRow | undefined {
  const at = ageOfDeployment(db, id)
  if (at === undefined) return undefined
  const sql = `SELECT * FROM deployments WHERE projectId = ? AND (orderedAt, position) > (?, ?)
    AND triggerSource IN ('cli', 'promotion') AND revertedAt IS NULL AND (placed IS NOT NULL OR status = 'success')
    ${newestFirst} LIMIT 1`
  return db.all(sql, projectId, at.orderedAt, at.position).map(readDeployment)[0]
}

/** The state of a deployment, which determines its files. */
export interface DeploymentState {
  /** The position of its row. */
  position: number
  id: string
  isOver: boolean
  hasArtifact: boolean
}

const states = 'SELECT position, id, status, hasArtifact FROM deployments'

/** Returns the states of at most `limit` deployments after a position, in the order of the table. */
export function deploymentStates(db: Reader, after = -1, limit = -1): DeploymentState[] {
  return db.all(`${states} WHERE position > ? ORDER BY position LIMIT ?`, after, limit).map(stateOf)
}

/** Returns the state of the deployment at a position. */
export function deploymentStateAt(db: Reader, position: number): DeploymentState | undefined {
  return db.all(`${states} WHERE position = ?`, position).map(stateOf)[0]
}

const readState = rowReader('deployments', {
  position: number,
  id: text,
  status: choice(deploymentStatuses),
  hasArtifact: flag
})

function stateOf(row: Row): DeploymentState {
  const { position, id, status, hasArtifact } = readState(row)
  return { position, id, isOver: status === 'success' || status === 'failed', hasArtifact }
}

/** Returns the ids of a project's records. */
export function deploymentIdsOf(db: Reader, projectId: string): string[] {
  return db.all('SELECT id FROM deployments WHERE projectId = ?', projectId).map(readId)
}

/**
 * Removes a project's records and returns their ids, so that their files can be removed too. It is faster if the
 * project has been removed before.
 */
export function deleteDeploymentsOf(tx: Transaction, projectId: string): string[] {
  const ids = deploymentIdsOf(tx, projectId)
  tx.run('DELETE FROM deployments WHERE projectId = ?', projectId)
  deleteReceiptsOf(tx, projectId)
  return ids
}

/** Returns when the newest deployment began, in milliseconds since the epoch; null if there is none. */
export function newestStartMs(db: Reader): number | null {
  const [newest = null] = db.all('SELECT max(startTime) FROM deployments').map(readNewest)
  return newest === null ? null : Date.parse(newest)
}

/**
 * Returns the id of a project's running deployment; without one, of the deployment that has been queued for the
 * longest.
 */
export function goingDeploymentId(db: Reader, projectId: string): string | undefined {
  const sql = 'SELECT id FROM deployments WHERE projectId = ? AND status = ? ORDER BY orderedAt, position LIMIT 1'
  const find = (status: DeploymentStatus): string | undefined => db.all(sql, projectId, status).map(readId)[0]
  return find('running') ?? find('queued')
}

/**
 * Returns the deployment whose files are in a project's target: the one whose extraction completed last, whatever its
 * status and whatever the clock said then. Undefined if none is known.
 */
export function liveDeployment(db: Reader, projectId: string): DeploymentRow | undefined {
  const sql = 'SELECT * FROM deployments WHERE projectId = ? AND placed IS NOT NULL ORDER BY placed DESC LIMIT 1'
  return db.all(sql, projectId).map(readDeployment)[0]
}

const readTree = valueReader('deployments.treeSha256', text)

/** Returns the trees that a project has had, in the order in which it had them first. */
export function treesOf(db: Reader, projectId: string): string[] {
  const sql = `SELECT treeSha256 FROM deployments WHERE projectId = ? AND treeSha256 IS NOT NULL
    AND (placed IS NOT NULL OR status = 'success') GROUP BY treeSha256 ORDER BY min(position)`
  return db.all(sql, projectId).map(readTree)
}

/** A deployment that put files into a target. */
export interface PlacedDeployment {
  id: string
  placed: number
  fileCount: number | null
}

const readPlaced = rowReader<PlacedDeployment>('deployments', { id: text, placed: number, fileCount: nullable(number) })

/** Returns the deployments of a project that put files into a directory, in the order in which they did. */
export function placedDeployments(db: Reader, projectId: string, target: string): PlacedDeployment[] {
  const sql = `SELECT id, placed, fileCount FROM deployments
    WHERE projectId = ? AND placed IS NOT NULL AND target = ? ORDER BY placed`
  return db.all(sql, projectId, target).map(readPlaced)
}

const readDigest = rowReader('deployments', { id: text, treeSha256: text })

/** Returns the digests of the trees of all releases, by deployment. */
export function treeDigests(db: Reader): Map<string, string> {
  const rows = db.all('SELECT id, treeSha256 FROM deployments WHERE treeSha256 IS NOT NULL').map(readDigest)
  return new Map(rows.map(({ id, treeSha256 }) => [id, treeSha256]))
}

const readTarget = valueReader('deployments.target', nullable(text))

/** Returns the directory into which a deployment put files; null if it put none there. */
export function targetOfDeployment(db: Reader, id: string): string | null {
  return db.all('SELECT target FROM deployments WHERE id = ?', id).map(readTarget)[0] ?? null
}

/** A deployment that changed a target, and what its exact undo needs. */
export interface Placement extends PlacedDeployment {
  /** The deployPath at that time. */
  target: string
  /**
   * The deployments whose archives contain what it replaced or removed, `before` for its own copy, `none` for contents
   * that were not kept. Null for a deployment of an earlier version.
   */
  beforeFrom: string[] | null
}

const readPlacement = rowReader<Placement>('deployments', {
  id: text,
  placed: number,
  fileCount: nullable(number),
  target: text,
  beforeFrom: nullable(texts)
})

/** Returns the deployments that changed the target of a project, newest first. */
export function placements(db: Reader, projectId: string): Placement[] {
  const sql = `SELECT id, placed, fileCount, coalesce(target, '') AS target, beforeFrom FROM deployments
    WHERE projectId = ? AND placed IS NOT NULL ORDER BY placed DESC`
  return db.all(sql, projectId).map(readPlacement)
}

/** Records where the contents are that a deployment replaced or removed (`Placement.beforeFrom`). */
export function setBeforeFrom(tx: Transaction, id: string, beforeFrom: readonly string[]): void {
  tx.run('UPDATE deployments SET beforeFrom = ? WHERE id = ?', JSON.stringify(beforeFrom), id)
}

/** Adds to what `setBeforeFrom` has recorded; does nothing if that is not known. */
export function addBeforeFrom(tx: Transaction, id: string, more: readonly string[]): void {
  const found = tx.all('SELECT beforeFrom FROM deployments WHERE id = ? AND beforeFrom IS NOT NULL', id)[0]
  if (found === undefined) return
  const known = JSON.parse(String(found['beforeFrom'])) as string[]
  setBeforeFrom(tx, id, [...new Set([...known, ...more])])
}

/**
 * Records that the files of a deployment are now in its project's target: the deployment gets the next number, and the
 * column `target` the deployPath, which may change later. A deployment that already has a number keeps it, unless
 * `again` says that its files were put there again.
 */
export function placeDeployment(tx: Transaction, id: string, { again = false } = {}): void {
  const next = `SELECT coalesce(max(other.placed), 0) + 1 FROM deployments AS other
    WHERE other.projectId = deployments.projectId AND other.placed IS NOT NULL`
  const target = 'SELECT deployPath FROM projects WHERE projects.id = deployments.projectId'
  const set = `placed = (${next}), target = (${target})`
  tx.run(`UPDATE deployments SET ${set} WHERE id = ?${again ? '' : ' AND placed IS NULL'}`, id)
}

/** Records that the files of a deployment are not in its project's target any more. */
export function unplaceDeployment(tx: Transaction, id: string): void {
  tx.run('UPDATE deployments SET placed = NULL WHERE id = ?', id)
}

/** Returns the ids of the deployments whose earlier files could not be put back yet. */
export function pendingReverts(db: Reader): string[] {
  const sql = 'SELECT id FROM deployments WHERE revertReason IS NOT NULL AND revertedAt IS NULL ORDER BY position'
  return db.all(sql).map(readId)
}

/** Returns a project's newest successful deployment whose archive is still kept. */
export function latestSuccessWithArchive(db: Reader, projectId: string): DeploymentRow | undefined {
  const sql = `SELECT * FROM deployments WHERE projectId = ? AND status = 'success' AND hasArtifact = 1 ${newestFirst} LIMIT 1`
  return db.all(sql, projectId).map(readDeployment)[0]
}

/** What a record says about an archive that is still kept. */
export type ArchivedDeployment = Pick<
  DeploymentRow,
  'id' | 'status' | 'exact' | 'placed' | 'treeSha256' | 'archiveBytes' | 'archiveSha256'
>

const readArchived = rowReader<ArchivedDeployment>('deployments', {
  id: text,
  status: choice(deploymentStatuses),
  exact: flag,
  placed: nullable(number),
  treeSha256: nullable(text),
  archiveBytes: nullable(number),
  archiveSha256: nullable(text)
})

/** Returns the archives of a project that are still kept, newest first. Each push asks for them several times. */
export function archivedDeployments(db: Reader, projectId: string): ArchivedDeployment[] {
  const sql = `SELECT id, status, exact, placed, treeSha256, archiveBytes, archiveSha256 FROM deployments
    WHERE projectId = ? AND hasArtifact = 1 ${newestFirst}`
  return db.all(sql, projectId).map(row => readArchived(row))
}

/** These expressions must match those of the indexes (core/store/schema.ts). */
const branchOf = `json_extract(provenance, '$.branch')`
const commitOf = `json_extract(provenance, '$.commit')`
const newestOfEach = `position IN (SELECT (
  SELECT newer.position FROM deployments AS newer WHERE newer.projectId = projects.id ORDER BY orderedAt DESC, position DESC LIMIT 1
) FROM projects)`

function conditionsOf({ projectId, projects, status, branch, commit, traceId, newest }: DeploymentFilter): Conditions {
  const { conditions, values } = among(
    equalities({ projectId, status, traceId, [branchOf]: branch }),
    'projectId',
    projects
  )
  if (branch !== undefined || commit !== undefined) conditions.push(`provenance <> 'null'`)
  if (commit !== undefined) {
    conditions.push(`${commitOf} >= ? AND ${commitOf} < ?`)
    // "g" comes after every hexadecimal digit.
    values.push(commit, `${commit}g`)
  }
  if (newest) conditions.push(newestOfEach)
  return { conditions, values }
}

function isStep(value: unknown): value is DeploymentStep {
  return isObject(value) && isStepName(value['name']) && typeof value['startedAt'] === 'string'
}

function isCheck(value: unknown): value is CheckResult {
  return isObject(value) && typeof value['check'] === 'string' && typeof value['ok'] === 'boolean'
}

function isDecision(value: unknown): value is Decision {
  return isObject(value) && typeof value['decision'] === 'string' && typeof value['name'] === 'string'
}

function isScript(value: unknown): value is RanScript {
  return isObject(value) && isScriptStep(value['step']) && typeof value['script'] === 'string'
}

function isSigner(value: unknown): value is SignedBy {
  return isObject(value) && typeof value['key'] === 'string' && typeof value['fingerprint'] === 'string'
}

function isClaim(value: unknown): value is StatementClaim | null {
  return value === null || (isObject(value) && typeof value['sequence'] === 'number')
}

function isProvenance(value: unknown): value is Provenance | null {
  return value === null || (isObject(value) && typeof value['source'] === 'string')
}

const readProcess = rowReader<ScriptProcess>('scriptProcesses', {
  deployId: text,
  step: choice(scriptSteps),
  pid: number,
  startedAt: text,
  bootId: text,
  home: text
})

/** Records the process group of a script that has started. */
export function insertScriptProcess(
  tx: Transaction,
  { deployId, step, pid, startedAt, bootId, home }: ScriptProcess
): void {
  const sql =
    'INSERT OR REPLACE INTO scriptProcesses (deployId, step, pid, startedAt, bootId, home) VALUES (?, ?, ?, ?, ?, ?)'
  tx.run(sql, deployId, step, pid, startedAt, bootId, home)
}

/** Removes the record of a script that has finished, or that svc no longer tracks. */
export function deleteScriptProcess(
  tx: Transaction,
  { deployId, step }: Pick<ScriptProcess, 'deployId' | 'step'>
): void {
  tx.run('DELETE FROM scriptProcesses WHERE deployId = ? AND step = ?', deployId, step)
}

/** Returns the recorded process groups of all scripts that have not finished. */
export function listScriptProcesses(db: Reader): ScriptProcess[] {
  return db.all('SELECT * FROM scriptProcesses ORDER BY deployId, step').map(readProcess)
}
