import type { Project, ProjectStatus } from '../../model/project.js'
import type { Reader, Transaction } from '../database.js'
import { columnsOf } from './columns.js'

/** What a project's own row holds: its tags are a table, its status and lastDeployAt follow from its deployments. */
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
  maxDiskMb: 'plain',
  env: 'plain',
  categoryId: 'plain',
  pm2AppName: 'plain',
  pinned: 'flag',
  createdAt: 'plain',
  updatedAt: 'plain'
})

// A deployment that still goes on is told even where a later one is over (cancelled while it waited).
const select = `
  SELECT p.*, newest.startTime AS lastDeployAt,
    CASE
      WHEN EXISTS (SELECT 1 FROM deployments d WHERE d.projectId = p.id AND d.status = 'running') THEN 'running'
      WHEN EXISTS (SELECT 1 FROM deployments d WHERE d.projectId = p.id AND d.status = 'queued') THEN 'running'
      ELSE coalesce(newest.status, 'idle')
    END AS status,
    (SELECT json_group_array(tagId) FROM projectTags t WHERE t.projectId = p.id) AS tagIds
  FROM projects p
  LEFT JOIN deployments newest ON newest.position = (
    SELECT d.position FROM deployments d WHERE d.projectId = p.id ORDER BY d.startTime DESC, d.position DESC LIMIT 1
  )`

/** Adds a project with its tags; its status and lastDeployAt are not stored. */
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
  return decode(db.get(`${select} WHERE p.id = ?`, id))
}

/** One project by its deploy token. The caller compares the token again in constant time. */
export function findProjectByToken(db: Reader, token: string): Project | undefined {
  return decode(db.get(`${select} WHERE p.token = ?`, token))
}

/** All projects, newest created first; with `tagIds` only those that have every one of them. */
export function listProjects(db: Reader, filter: { tagIds?: string[] } = {}): Project[] {
  const tagIds = [...new Set(filter.tagIds ?? [])]
  const order = 'ORDER BY p.createdAt DESC, p.position DESC'
  const rows =
    tagIds.length === 0
      ? db.all<object>(`${select} ${order}`)
      : db.all<object>(
          `${select} WHERE ? = (
             SELECT count(*) FROM projectTags t WHERE t.projectId = p.id AND t.tagId IN (SELECT value FROM json_each(?))
           ) ${order}`,
          tagIds.length,
          JSON.stringify(tagIds)
        )
  return rows.map(row => decode(row) as Project)
}

function setTags(tx: Transaction, projectId: string, tagIds: string[]): void {
  for (const tagId of new Set(tagIds)) tx.run('INSERT INTO projectTags (projectId, tagId) VALUES (?, ?)', projectId, tagId)
}

interface Joined {
  tagIds: string
  status: ProjectStatus
}

function decode(row: object | undefined): Project | undefined {
  if (row === undefined) return undefined
  return { ...columns.decode<Project>(row), tagIds: JSON.parse((row as Joined).tagIds) as string[] }
}
