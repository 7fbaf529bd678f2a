import type { ProjectScope } from '../../model/access.js'
import type { DeploymentRow } from '../../model/deployment.js'
import type { Reader } from '../database.js'
import { number, rowReader, text, valueReader } from './columns.js'
import { among, where } from './conditions.js'
import { readDeployment } from './deployments.js'

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
const readCount = valueReader('count of brokenProjects', number)

const select = `
  SELECT broken.projectId, projects.name AS projectName, projects.env AS projectEnv, broken.deployId, broken.since
  FROM brokenProjects AS broken JOIN projects ON projects.id = broken.projectId`

/** Returns at most `limit` broken projects of a scope, those that have been broken for the longest first. */
export function listBrokenProjects(db: Reader, limit: number, scope?: ProjectScope): BrokenRow[] {
  const { conditions, values } = among({ conditions: [], values: [] }, 'broken.projectId', scope)
  const sql = `${select} ${where(conditions)} ORDER BY broken.since, broken.projectId LIMIT ?`
  return db.all(sql, ...values, limit).map(readBroken)
}

/** Returns the number of broken projects in a scope. */
export function countBrokenProjects(db: Reader, scope?: ProjectScope): number {
  const { conditions, values } = among({ conditions: [], values: [] }, 'projectId', scope)
  return db.all(`SELECT count(*) FROM brokenProjects ${where(conditions)}`, ...values).map(readCount)[0] ?? 0
}

/** Returns why a project is broken; undefined if it is not. */
export function findBrokenProject(db: Reader, projectId: string): BrokenRow | undefined {
  return db.all(`${select} WHERE broken.projectId = ?`, projectId).map(readBroken)[0]
}

/** Returns a project's newest deployment that succeeded and whose script did not fail in the background. */
export function lastGoodDeployment(db: Reader, projectId: string): DeploymentRow | undefined {
  const sql = `SELECT * FROM deployments WHERE projectId = ? AND outcome = 1 ORDER BY orderedAt DESC, position DESC LIMIT 1`
  return db.all(sql, projectId).map(readDeployment)[0]
}
