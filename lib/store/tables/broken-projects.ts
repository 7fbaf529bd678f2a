import type { DeploymentRow } from '../../model/deployment.js'
import type { Reader } from '../database.js'
import { deploymentOf } from './deployments.js'

/** A project whose newest finished deployment failed. */
export interface BrokenRow {
  projectId: string
  projectName: string
  projectEnv: string
  /** The deployment that failed last. */
  deployId: string
  /** When the first failure began after which none succeeded. */
  since: string
}

const columns = `
  SELECT broken.projectId, projects.name AS projectName, projects.env AS projectEnv, broken.deployId, broken.since
  FROM brokenProjects AS broken JOIN projects ON projects.id = broken.projectId`

/** The projects that are broken now, those that have been for the longest first, at most `limit`. */
export function listBrokenProjects(db: Reader, limit: number): BrokenRow[] {
  return db.all<BrokenRow>(`${columns} ORDER BY broken.since, broken.projectId LIMIT ?`, limit)
}

/** How many are broken. */
export function countBrokenProjects(db: Reader): number {
  return db.get<{ n: number }>('SELECT count(*) AS n FROM brokenProjects')?.n ?? 0
}

/** How a project is broken; undefined if it is not. */
export function findBrokenProject(db: Reader, projectId: string): BrokenRow | undefined {
  return db.get<BrokenRow>(`${columns} WHERE broken.projectId = ?`, projectId)
}

/** A project's newest deployment that succeeded, and whose script did not fail in the background either. */
export function lastGoodDeployment(db: Reader, projectId: string): DeploymentRow | undefined {
  const sql = `SELECT * FROM deployments WHERE projectId = ? AND outcome = 1 ORDER BY startTime DESC, position DESC LIMIT 1`
  return deploymentOf(db.get(sql, projectId))
}
