import type { Project } from '../../model/project.js'
import type { Reader, Transaction } from '../database.js'
import { columnsOf } from './columns.js'

/** What is written of a project: its tags are a table, and what its row says of them and of its deployments is kept by triggers. */
type ProjectRow = Omit<Project, 'tagIds' | 'status' | 'lastDeployAt'>

const columns = columnsOf<ProjectRow>('projects', {
  id: 'plain',
  name: 'plain',
  description: 'plain',
  deployPath: 'plain',
  token: 'plain',
  preDeployScript: 'plain',
  postDeployScript: 'plain',
  postDeployAsync: 'flag',
  allowClientScripts: 'flag',
  allowedEnv: 'json',
  runAs: 'plain',
  umask: 'plain',
  scriptTimeoutSeconds: 'plain',
  scriptShell: 'plain',
  scriptDirectory: 'plain',
  maxDiskMb: 'plain',
  env: 'plain',
  categoryId: 'plain',
  pm2AppName: 'plain',
  pinned: 'flag',
  createdAt: 'plain',
  updatedAt: 'plain'
})

const newestFirst = 'ORDER BY createdAt DESC, position DESC'

/** Adds a project with its tags; its status and lastDeployAt follow from its deployments. */
export function insertProject(tx: Transaction, project: Project): void {
  columns.insert(tx, project)
  setTags(tx, project.id, project.tagIds)
}

/** Writes the fields that are present, tagIds as a whole; gives false where there is no such project. */
export function updateProject(tx: Transaction, id: string, patch: Partial<Project>): boolean {
  if (columns.update(tx, id, patch) === 0) return false
  if (patch.tagIds !== undefined) {
    tx.run('DELETE FROM projectTags WHERE projectId = ?', id)
    setTags(tx, id, patch.tagIds)
  }
  return true
}

/** Removes a project; its deployments must go in the same transaction (`deleteDeploymentsOf`). */
export function deleteProject(tx: Transaction, id: string): boolean {
  return tx.run('DELETE FROM projects WHERE id = ?', id) > 0
}

/** One project by its id. */
export function findProject(db: Reader, id: string): Project | undefined {
  return one(db.get('SELECT * FROM projects WHERE id = ?', id))
}

/** One project by its deploy token. The caller compares the token again in constant time. */
export function findProjectByToken(db: Reader, token: string): Project | undefined {
  return one(db.get('SELECT * FROM projects WHERE token = ?', token))
}

/** All projects, newest created first; `visit` is told where each of them is in the table. */
export function listProjects(db: Reader, visit: (project: Project, position: number) => void = () => {}): Project[] {
  return db.all<Row>(`SELECT * FROM projects ${newestFirst}`).map(row => {
    const { position } = row
    const project = decode(row)
    visit(project, position)
    return project
  })
}

type TextField = 'id' | 'name' | 'deployPath' | 'token' | 'status' | 'runAs' | 'umask'

/** These fields of all projects, newest created first: a tenth of the time that whole projects take. */
export function readProjects<F extends TextField>(db: Reader, fields: readonly F[]): Array<Pick<Project, F>> {
  return db.all(`SELECT ${fields.join(', ')} FROM projects ${newestFirst}`)
}

/** The project at a place in the table. */
export function projectAt(db: Reader, position: number): Project | undefined {
  return one(db.get('SELECT * FROM projects WHERE position = ?', position))
}

/** Those that are pinned, newest created first. */
export function listPinnedProjects(db: Reader): Project[] {
  return db.all<Row>(`SELECT * FROM projects WHERE pinned = 1 ${newestFirst}`).map(decode)
}

/** The one that was created last. */
export function newestProject(db: Reader): Project | undefined {
  return one(db.get(`SELECT * FROM projects ${newestFirst} LIMIT 1`))
}

/** How many there are. */
export function countProjects(db: Reader): number {
  return db.get<{ n: number }>('SELECT count(*) AS n FROM projects')?.n ?? 0
}

function setTags(tx: Transaction, projectId: string, tagIds: string[]): void {
  for (const tagId of new Set(tagIds)) tx.run('INSERT INTO projectTags (projectId, tagId) VALUES (?, ?)', projectId, tagId)
}

interface Row {
  position: number
  tagIds: unknown
}

function one(row: Row | undefined): Project | undefined {
  return row === undefined ? undefined : decode(row)
}

function decode(row: Row): Project {
  row.tagIds = JSON.parse(row.tagIds as string)
  return columns.decode<Project>(row)
}

/** Whether a deployment of any project is queued or running, by its record. */
export function isAnyRunning(db: Reader): boolean {
  return db.get(`SELECT 1 FROM projects WHERE status = 'running' LIMIT 1`) !== undefined
}
