/* The tables of projects: which are broken or kept, labels, variables and log sources. */
import { notFound } from '../../../base/errors.js'
import { actorText } from '../../../base/shared/api.js'
import type { ProjectScope } from '../../../model/access.js'
import type { DeploymentRow } from '../../../model/deployment.js'
import {
  type Label,
  labelColors,
  type LabelKind,
  type Project,
  projectColumns,
  projectStatuses
} from '../../../model/project.js'
import { logKinds, type LogSource } from '../../../model/log-source.js'
import type { PolicyChanges } from '../../../model/policy.js'
import type { StoredVariable } from '../../../model/variable.js'
import type { Reader, Store, Transaction, Value } from '../database.js'
import {
  among,
  choice,
  type Columns,
  flag,
  isObject,
  json,
  nullable,
  number,
  rowReader,
  tableOf,
  text,
  texts,
  valueReader,
  where,
  type Column
} from './table.js'
import { readDeployment } from './deployments.js'
import { type Lock, type LockKind, lockKinds, type MaintenanceRow } from '../../../model/marks.js'

const columnTypes = {
  text,
  'text?': nullable(text),
  flag,
  'flag?': nullable(flag),
  'number?': nullable(number),
  texts,
  policy: json('a policy', isPolicy),
  status: choice(projectStatuses)
}
type ColumnTypes = typeof columnTypes

/** The columns, as the model declares the fields. */
const columns: Columns<Project> = columnsOf(projectColumns)

function columnsOf<T extends Record<string, keyof ColumnTypes>>(types: T): { [Key in keyof T]: ColumnTypes[T[Key]] } {
  const named = Object.entries(types).map(([name, type]) => [name, columnTypes[type]])
  return Object.fromEntries(named) as { [Key in keyof T]: ColumnTypes[T[Key]] }
}

// Triggers maintain the columns of a project that depend on its tags (a separate table) and its deployments.
const projects = tableOf('projects', columns, ['tagIds', 'status', 'lastDeployAt'])
const readPosition = rowReader('projects', { position: number })
const readCount = valueReader('count of projects', number)

const newestFirst = 'ORDER BY createdAt DESC, position DESC'

/** Adds a project with its tags. Triggers set its status and lastDeployAt from its deployments. */
export function insertProject(tx: Transaction, project: Project): void {
  projects.insert(tx, project)
  setTags(tx, project.id, project.tagIds)
}

/** Writes the fields that are present; `tagIds` replaces all tags. Returns false if there is no such project. */
export function updateProject(tx: Transaction, id: string, patch: Partial<Project>): boolean {
  if (!projects.update(tx, id, patch)) return false
  if (patch.tagIds !== undefined) {
    tx.run('DELETE FROM projectTags WHERE projectId = ?', id)
    setTags(tx, id, patch.tagIds)
  }
  return true
}

/** Removes a project. Its deployments must be removed in the same transaction (`deleteDeploymentsOf`). */
export const deleteProject = projects.delete

export const findProject = projects.find

/** Returns a project. Refuses: 404. */
export function requireProject(db: Reader, id: string): Project {
  const project = findProject(db, id)
  if (project === undefined) throw notFound('Project', id)
  return project
}

/** Returns an actor as texts name it. */
export function nameOfActor(db: Reader, actor: string): string {
  return actorText(actor, id => findProject(db, id)?.name)
}

/** Returns the names of projects; of one that is unknown, its id. */
export function projectNames(db: Reader, ids: readonly string[]): string[] {
  return ids.map(id => findProject(db, id)?.name ?? id)
}

/** Returns one project by its deploy token. The caller compares the token again in constant time. */
export function findProjectByToken(db: Reader, token: string): Project | undefined {
  return db.all('SELECT * FROM projects WHERE token = ?', token).map(projects.read)[0]
}

/** Returns all projects, newest created first. `visit` gets each project with its position in the table. */
export function listProjects(db: Reader, visit: (project: Project, position: number) => void = () => {}): Project[] {
  return db.all(`SELECT * FROM projects ${newestFirst}`).map(row => {
    const project = projects.read(row)
    visit(project, readPosition(row).position)
    return project
  })
}

/** Returns these fields of all projects, newest created first. It takes a tenth of the time of `listProjects`. */
export function readProjects<F extends keyof Project>(db: Reader, fields: readonly F[]): Array<Pick<Project, F>> {
  const read = rowReader<Pick<Project, F>>('projects', columns, fields)
  return db.all(`SELECT ${fields.join(', ')} FROM projects ${newestFirst}`).map(read)
}

/** Returns the projects whose policy contains this text as it is stored, newest created first. It parses no other policy. */
export function policiesWith(db: Reader, text: string): Array<Pick<Project, 'id' | 'policy'>> {
  const read = rowReader<Pick<Project, 'id' | 'policy'>>('projects', columns, ['id', 'policy'])
  return db.all(`SELECT id, policy FROM projects WHERE instr(policy, ?) > 0 ${newestFirst}`, text).map(read)
}

/** Returns the project at a position of the table. */
export function projectAt(db: Reader, position: number): Project | undefined {
  return db.all('SELECT * FROM projects WHERE position = ?', position).map(projects.read)[0]
}

/** Returns the pinned projects of a scope, newest created first. */
export function listPinnedProjects(db: Reader, scope?: ProjectScope): Project[] {
  const { conditions, values } = among({ conditions: ['pinned = 1'], values: [] }, 'id', scope)
  return db.all(`SELECT * FROM projects ${where(conditions)} ${newestFirst}`, ...values).map(projects.read)
}

/** Returns the project of a scope that was created last. */
export function newestProject(db: Reader, scope?: ProjectScope): Project | undefined {
  const { conditions, values } = among({ conditions: [], values: [] }, 'id', scope)
  return db.all(`SELECT * FROM projects ${where(conditions)} ${newestFirst} LIMIT 1`, ...values).map(projects.read)[0]
}

/** Returns the number of projects in a scope. */
export function countProjects(db: Reader, scope?: ProjectScope): number {
  const { conditions, values } = among({ conditions: [], values: [] }, 'id', scope)
  return db.all(`SELECT count(*) FROM projects ${where(conditions)}`, ...values).map(readCount)[0] ?? 0
}

function isPolicy(value: unknown): value is PolicyChanges {
  return isObject(value)
}

function setTags(tx: Transaction, projectId: string, tagIds: string[]): void {
  for (const tagId of new Set(tagIds))
    tx.run('INSERT INTO projectTags (projectId, tagId) VALUES (?, ?)', projectId, tagId)
}

const readForeign = valueReader('projects.foreignAfter', nullable(number))

/**
 * Returns the number (`placed`) of the last deployment before an import changed the target of a project without a record;
 * null if none did.
 */
export function foreignChangeOf(db: Reader, projectId: string): number | null {
  return db.all('SELECT foreignAfter FROM projects WHERE id = ?', projectId).map(readForeign)[0] ?? null
}

/** Records that the target of a project has been changed without a record. */
export function noteForeignChange(tx: Transaction, projectId: string): void {
  const last = 'SELECT coalesce(max(placed), 0) FROM deployments WHERE projectId = projects.id'
  tx.run(`UPDATE projects SET foreignAfter = (${last}) WHERE id = ?`, projectId)
}

interface Kept {
  position: number
  project: Project
}

/**
 * Caches all projects, newest created first, like `listProjects`. Each call reads only the rows that were written to
 * since the last call: reading all of 5,000 projects takes 50 ms (test/bench/scale). The first call reads all projects.
 * The caller must not change them.
 */
export function keepProjects(store: Pick<Store, 'get' | 'all' | 'follow'>): () => readonly Project[] {
  const followed = store.follow('projects')
  const rows = new Map<number, Kept>()
  let sorted: Project[] = []

  function sort(): void {
    const newestFirst = (one: Kept, other: Kept): number => {
      const [at, otherAt] = [one.project.createdAt, other.project.createdAt]
      return at === otherAt ? other.position - one.position : at < otherAt ? 1 : -1
    }
    sorted = [...rows.values()].sort(newestFirst).map(({ project }) => project)
  }

  return () => {
    const changed = followed.take()
    if (changed === null) {
      rows.clear()
      sorted = listProjects(store, (project, position) => void rows.set(position, { project, position }))
      return sorted
    }
    if (changed.size === 0) return sorted
    for (const position of changed) {
      const project = projectAt(store, position)
      if (project === undefined) rows.delete(position)
      else rows.set(position, { project, position })
    }
    sort()
    return sorted
  }
}

/** A project whose newest finished deployment failed. */
export interface BrokenRow {
  projectId: string
  projectName: string
  projectEnv: string
  /** The deployment that failed last. */
  deployId: string
  /** The start of the first of the consecutive failures. */
  since: string
}

const readBroken = rowReader<BrokenRow>('brokenProjects', {
  projectId: text,
  projectName: text,
  projectEnv: text,
  deployId: text,
  since: text
})
const readBrokenId = valueReader('brokenProjects.projectId', text)

const selectBroken = `
  SELECT broken.projectId, projects.name AS projectName, projects.env AS projectEnv, broken.deployId, broken.since
  FROM brokenProjects AS broken JOIN projects ON projects.id = broken.projectId`

/** Returns the broken projects of a scope, those that broke last first. */
export function listBrokenProjects(db: Reader, scope?: ProjectScope): BrokenRow[] {
  const { conditions, values } = among({ conditions: [], values: [] }, 'broken.projectId', scope)
  const sql = `${selectBroken} ${where(conditions)} ORDER BY broken.since DESC, broken.projectId DESC`
  return db.all(sql, ...values).map(readBroken)
}

/** Returns the projects of a scope that are broken although their status is a success: a script failed in the background. */
export function brokenInBackground(db: Reader, scope?: ProjectScope): string[] {
  const { conditions, values } = among({ conditions: ["status = 'success'"], values: [] }, 'id', scope)
  const sql = `SELECT id FROM projects ${where(conditions)} AND id IN (SELECT projectId FROM brokenProjects)`
  return db.all(sql, ...values).map(readBrokenId)
}

/** Returns why a project is broken; undefined if it is not. */
export function findBrokenProject(db: Reader, projectId: string): BrokenRow | undefined {
  return db.all(`${selectBroken} WHERE broken.projectId = ?`, projectId).map(readBroken)[0]
}

/** Returns a project's newest deployment that succeeded and whose script did not fail in the background. */
export function lastGoodDeployment(db: Reader, projectId: string): DeploymentRow | undefined {
  const sql = `SELECT * FROM deployments WHERE projectId = ? AND outcome = 1 ORDER BY orderedAt DESC, position DESC LIMIT 1`
  return db.all(sql, projectId).map(readDeployment)[0]
}

/** `projectCount` is computed by the query, not stored. */
const labelColumns: Columns<Label> = {
  id: text,
  name: text,
  color: choice(labelColors),
  sortOrder: number,
  projectCount: number,
  createdAt: text,
  updatedAt: text
}

const labelTables = {
  category: {
    ...tableOf('categories', labelColumns, ['projectCount']),
    name: 'categories',
    carriers: { table: 'projects', condition: 'p.categoryId = l.id' },
    project: 'id'
  },
  tag: {
    ...tableOf('tags', labelColumns, ['projectCount']),
    name: 'tags',
    carriers: { table: 'projectTags', condition: 'p.tagId = l.id' },
    project: 'projectId'
  }
}

/** Returns the labels that a condition selects. `scope`: only these projects are counted. */
function selectLabels(db: Reader, kind: LabelKind, { rest, values = [], scope }: Selection): Label[] {
  const { read, name, carriers, project } = labelTables[kind]
  const counted = among({ conditions: [carriers.condition], values: [] }, `p.${project}`, scope)
  const count = `SELECT count(*) FROM ${carriers.table} p ${where(counted.conditions)}`
  return db.all(`SELECT l.*, (${count}) AS projectCount FROM ${name} l ${rest}`, ...counted.values, ...values).map(read)
}

interface Selection {
  rest: string
  values?: readonly Value[]
  scope?: ProjectScope
}

/** Adds a category or tag. Names are unique regardless of case: a duplicate throws SQLite's error. */
export function insertLabel(tx: Transaction, kind: LabelKind, label: Label): void {
  labelTables[kind].insert(tx, label)
}

/** Writes the fields that are present to the label with this id; returns false if there is none. */
export function updateLabel(tx: Transaction, kind: LabelKind, patch: Partial<Label> & Pick<Label, 'id'>): boolean {
  return labelTables[kind].update(tx, patch.id, patch)
}

/** Removes a label, also from its projects; returns the number of these projects. */
export function deleteLabel(tx: Transaction, kind: LabelKind, id: string): number {
  const label = findLabel(tx, kind, id)
  labelTables[kind].delete(tx, id)
  return label?.projectCount ?? 0
}

export function findLabel(db: Reader, kind: LabelKind, id: string): Label | undefined {
  return selectLabels(db, kind, { rest: 'WHERE l.id = ?', values: [id] })[0]
}

/** Returns one label by its name, regardless of case (ASCII only, like the unique index). */
export function findLabelByName(db: Reader, kind: LabelKind, name: string): Label | undefined {
  return selectLabels(db, kind, { rest: 'WHERE l.name = ?', values: [name] })[0]
}

/**
 * Returns the labels of a kind, sorted by sortOrder, then by name. With a scope, only its projects are counted, and labels that
 * none of them has are left out: their names say what else there is.
 */
export function listLabels(db: Reader, kind: LabelKind, scope?: ProjectScope): Label[] {
  const labels = selectLabels(db, kind, { rest: 'ORDER BY l.sortOrder, l.name, l.id', scope })
  return scope == null ? labels : labels.filter(({ projectCount }) => projectCount > 0)
}

const readVariable = rowReader<StoredVariable>('variables', {
  projectId: text,
  name: text,
  value: text,
  secret: flag,
  updatedAt: text
})

/** Returns a project's variables, sorted by name. */
export function listVariables(db: Reader, projectId: string): StoredVariable[] {
  return db.all('SELECT * FROM variables WHERE projectId = ? ORDER BY name', projectId).map(readVariable)
}

/** Returns the encrypted secrets of all projects. */
export function listSecrets(db: Reader): StoredVariable[] {
  return db.all('SELECT * FROM variables WHERE secret = 1 ORDER BY projectId, name').map(readVariable)
}

/** Writes a variable, replacing the one with its name. */
export function putVariable(tx: Transaction, { projectId, name, value, secret, updatedAt }: StoredVariable): void {
  const sql = 'INSERT OR REPLACE INTO variables (projectId, name, value, secret, updatedAt) VALUES (?, ?, ?, ?, ?)'
  tx.run(sql, projectId, name, value, Number(secret), updatedAt)
}

/** Removes a variable. A project's variables are removed together with the project. */
export function deleteVariable(tx: Transaction, projectId: string, name: string): void {
  tx.run('DELETE FROM variables WHERE projectId = ? AND name = ?', projectId, name)
}

const sources = tableOf<LogSource>('logSources', {
  id: text,
  projectId: text,
  label: text,
  filePath: text,
  kind: choice(logKinds),
  sortOrder: number,
  createdAt: text,
  updatedAt: text
})

export const insertLogSource = sources.insert

/** Writes the fields that are present; returns false if there is no such source. */
export const updateLogSource = sources.update

/** Removes a source; returns false if there is none. A project's sources are removed together with the project. */
export const deleteLogSource = sources.delete

export const findLogSource = sources.find

/** Returns a project's sources, sorted by sortOrder, then in the order in which they were added. */
export function listLogSources(db: Reader, projectId: string): LogSource[] {
  const sql = 'SELECT * FROM logSources WHERE projectId = ? ORDER BY sortOrder, position'
  return db.all(sql, projectId).map(sources.read)
}

/** Returns the sources of all projects; those of each project in its order. */
export function listAllLogSources(db: Reader): LogSource[] {
  return db.all('SELECT * FROM logSources ORDER BY projectId, sortOrder, position').map(sources.read)
}

/* Locks and maintenance: the two kinds of rows of the table `locks`. */

const readLock = rowReader<Lock>('locks', {
  projectId: nullable(text),
  kind: choice(lockKinds),
  owner: text,
  reason: text,
  createdAt: text,
  expiresAt: text
})

/** Returns the locks that have not expired at `now` (ISO text): first those of the server, then the oldest. */
export function listLocks(db: Reader, now: string): Lock[] {
  const sql = `SELECT * FROM locks WHERE kind = 'lock' AND expiresAt > ?
    ORDER BY projectId IS NOT NULL, createdAt, projectId`
  return db.all(sql, now).map(readLock)
}

/** Returns the locks that refuse deployments of a project at `now`: first those of the server. */
export function locksOn(db: Reader, projectId: string, now: string): Lock[] {
  const sql = `SELECT * FROM locks WHERE (projectId = ? OR projectId IS NULL) AND kind = 'lock' AND expiresAt > ?
    ORDER BY projectId IS NOT NULL, createdAt`
  return db.all(sql, projectId, now).map(readLock)
}

/** Returns a lock, even if it has expired. A null `projectId` means the server. */
export function findLock(db: Reader, { projectId, kind }: { projectId: string | null; kind: LockKind }) {
  const row = db.get('SELECT * FROM locks WHERE projectId IS ? AND kind = ?', projectId, kind)
  return row === undefined ? undefined : readLock(row)
}

/** Adds a lock. The caller has removed any other of the same kind. */
export function insertLock(tx: Transaction, { projectId, kind, owner, reason, createdAt, expiresAt }: Lock): void {
  const sql = 'INSERT INTO locks (projectId, kind, owner, reason, createdAt, expiresAt) VALUES (?, ?, ?, ?, ?, ?)'
  tx.run(sql, projectId, kind, owner, reason, createdAt, expiresAt)
}

/** Removes a lock. The locks of a project are removed together with the project. */
export function deleteLock(tx: Transaction, { projectId, kind }: Pick<Lock, 'projectId' | 'kind'>): void {
  tx.run('DELETE FROM locks WHERE projectId IS ? AND kind = ?', projectId, kind)
}

/** Removes the locks that have expired at `now`. */
export function deleteExpiredLocks(tx: Transaction, now: string): void {
  tx.run('DELETE FROM locks WHERE expiresAt <= ?', now)
}

/* The maintenance of projects: the rows of the table `locks` with the kind `maintenance`. They never expire. */

/** A reason, which the table requires: no reason is stored as an empty text. */
const reason: Column<string | null> = {
  wanted: 'text',
  read: value => (typeof value === 'string' ? value || null : undefined),
  write: field => field ?? ''
}

const readRow = rowReader<MaintenanceRow>('locks', {
  projectId: text,
  by: text,
  reason,
  since: text,
  path: text,
  sha256: text
})
const maintenanceColumns = 'projectId, owner AS "by", reason, createdAt AS since, path, sha256'

/** The end of what does not end: later than any time that svc compares with it. */
const never = '9999-12-31T23:59:59.999Z'

/** Returns the maintenance of a project; undefined if it is off. */
export function findMaintenance(db: Reader, projectId: string): MaintenanceRow | undefined {
  const row = db.get(`SELECT ${maintenanceColumns} FROM locks WHERE projectId = ? AND kind = 'maintenance'`, projectId)
  return row === undefined ? undefined : readRow(row)
}

/** Returns the maintenance of all projects, the oldest first. */
export function listMaintenance(db: Reader): MaintenanceRow[] {
  const sql = `SELECT ${maintenanceColumns} FROM locks WHERE kind = 'maintenance' ORDER BY createdAt, projectId`
  return db.all(sql).map(readRow)
}

/** Adds the maintenance of a project. The caller has made sure that there is none. */
export function insertMaintenance(tx: Transaction, row: MaintenanceRow): void {
  const { projectId, by, since, path, sha256 } = row
  const sql = `INSERT INTO locks (projectId, kind, owner, reason, createdAt, expiresAt, path, sha256)
    VALUES (?, 'maintenance', ?, ?, ?, ?, ?, ?)`
  tx.run(sql, projectId, by, reason.write(row.reason), since, never, path, sha256)
}

/** Removes the maintenance of a project. It is also removed together with the project. */
export function deleteMaintenance(tx: Transaction, projectId: string): void {
  tx.run(`DELETE FROM locks WHERE projectId = ? AND kind = 'maintenance'`, projectId)
}
