import type { ListedPlacement, Placement } from '../../model/node.js'
import type { ProjectScope } from '../../model/access.js'
import type { Reader, Transaction } from '../database.js'
import { flag, nullable, number, rowReader, text, valueReader, type Columns } from './columns.js'
import { among, equalities, where } from './conditions.js'

const columns: Columns<Placement> = {
  projectId: text,
  nodeId: text,
  deployPath: text,
  liveDeployId: nullable(text),
  liveTree: nullable(text),
  seenAt: nullable(text),
  isDrifted: flag
}
const read = rowReader<Placement>('placements', columns)
const readListed = rowReader<ListedPlacement>('placements', { ...columns, projectName: text, nodeName: text })
const readCount = valueReader('count of placements', number)

/** Adds a placement. */
export function insertPlacement(tx: Transaction, placement: Placement): void {
  const { projectId, nodeId, deployPath, liveDeployId, liveTree, seenAt, isDrifted } = placement
  const sql = `INSERT INTO placements (projectId, nodeId, deployPath, liveDeployId, liveTree, seenAt, isDrifted)
    VALUES (?, ?, ?, ?, ?, ?, ?)`
  tx.run(sql, projectId, nodeId, deployPath, liveDeployId, liveTree, seenAt, Number(isDrifted))
}

/** Changes the directory of a placement; returns false if there is none. */
export function movePlacement(tx: Transaction, { projectId, nodeId, deployPath }: Placement): boolean {
  const sql = 'UPDATE placements SET deployPath = ? WHERE projectId = ? AND nodeId = ?'
  return tx.run(sql, deployPath, projectId, nodeId) > 0
}

/** Writes what a node says about a placement; returns false if there is none. */
export function noteLive(tx: Transaction, placement: Omit<Placement, 'deployPath'>): boolean {
  const { projectId, nodeId, liveDeployId, liveTree, seenAt, isDrifted } = placement
  const sql = `UPDATE placements SET liveDeployId = ?, liveTree = ?, seenAt = ?, isDrifted = ?
    WHERE projectId = ? AND nodeId = ?`
  return tx.run(sql, liveDeployId, liveTree, seenAt, Number(isDrifted), projectId, nodeId) > 0
}

/** Removes a placement; returns false if there is none. */
export function deletePlacement(tx: Transaction, projectId: string, nodeId: string): boolean {
  return tx.run('DELETE FROM placements WHERE projectId = ? AND nodeId = ?', projectId, nodeId) > 0
}

/** Returns the placement of a project on a node. */
export function findPlacement(db: Reader, projectId: string, nodeId: string): Placement | undefined {
  return db.all('SELECT * FROM placements WHERE projectId = ? AND nodeId = ?', projectId, nodeId).map(read)[0]
}

/** Returns whether a project is placed on any node. */
export function isPlaced(db: Reader, projectId: string): boolean {
  return db.get('SELECT 1 FROM placements WHERE projectId = ? LIMIT 1', projectId) !== undefined
}

/** Returns placements by project name, then node name. */
export function listPlacements(
  db: Reader,
  { projectId, nodeId, scope }: { projectId?: string; nodeId?: string; scope?: ProjectScope } = {}
): ListedPlacement[] {
  const wanted = equalities({ 'placements.projectId': projectId, 'placements.nodeId': nodeId })
  const { conditions, values } = among(wanted, 'placements.projectId', scope)
  const sql = `SELECT placements.*, projects.name AS projectName, nodes.name AS nodeName FROM placements
    JOIN projects ON projects.id = placements.projectId JOIN nodes ON nodes.id = placements.nodeId
    ${where(conditions)} ORDER BY projects.name, placements.projectId, nodes.name`
  return db.all(sql, ...values).map(readListed)
}

/** Returns the number of placements. */
export function countPlacements(db: Reader): number {
  return db.all('SELECT count(*) FROM placements').map(readCount)[0] ?? 0
}
