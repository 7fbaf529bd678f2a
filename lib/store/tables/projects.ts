import type { ProjectScope } from '../../model/access.js'
import { projectStatuses, type Project } from '../../model/project.js'
import type { PolicyChanges } from '../../model/policy.js'
import type { Reader, Transaction } from '../database.js'
import {
  choice,
  flag,
  isObject,
  json,
  nullable,
  number,
  rowReader,
  text,
  texts,
  valueReader,
  type Columns
} from './columns.js'
import { among, where } from './conditions.js'
import { tableOf } from './table.js'

const columns: Columns<Project> = {
  id: text,
  name: text,
  description: text,
  deployPath: text,
  token: text,
  preDeployScript: text,
  postDeployScript: text,
  postDeployAsync: flag,
  allowClientScripts: nullable(flag),
  allowedEnv: texts,
  runAs: nullable(text),
  umask: nullable(text),
  scriptTimeoutSeconds: nullable(number),
  scriptShell: nullable(text),
  scriptDirectory: nullable(text),
  maxDiskMb: nullable(number),
  policy: json('a policy', isPolicy),
  env: text,
  categoryId: nullable(text),
  pm2AppName: nullable(text),
  pinned: flag,
  tagIds: texts,
  status: choice(projectStatuses),
  lastDeployAt: nullable(text),
  createdAt: text,
  updatedAt: text
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

/** Returns one project by its id. */
export const findProject = projects.find

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

/** Returns whether the record of any deployment is queued or running. */
export function isAnyRunning(db: Reader): boolean {
  return db.get(`SELECT 1 FROM projects WHERE status = 'running' LIMIT 1`) !== undefined
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
