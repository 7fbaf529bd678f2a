/*
 * The changes of the targets of projects, in their order: which deployments made them, and what a way back from each
 * needs. The columns `target`, `beforeFrom` and `foreignAfter` are not part of the records of the API.
 */
import type { DeploymentStatus } from '../../model/deployment.js'
import { deploymentStatuses } from '../../model/deployment.js'
import type { Reader, Transaction } from '../database.js'
import { choice, flag, nullable, number, rowReader, text, texts, valueReader } from './columns.js'

/** A change of a target by a deployment. */
export interface Placement {
  id: string
  /** The number of the change among those of the project, from 1 on. */
  placed: number
  /** The deployPath at that time; null for a deployment of an earlier version. */
  target: string | null
  status: DeploymentStatus
  message: string | null
  fileCount: number | null
  treeSha256: string | null
  hasArtifact: boolean
  /** What a way back from it needs (`wayBackOf`); empty if that is not known. */
  beforeFrom: string[]
}

const columns = {
  id: text,
  placed: number,
  target: nullable(text),
  status: choice(deploymentStatuses),
  message: nullable(text),
  fileCount: nullable(number),
  treeSha256: nullable(text),
  hasArtifact: flag,
  beforeFrom: texts
}
const readPlacement = rowReader<Placement>('deployments', columns)
const selected = `SELECT ${Object.keys(columns).join(', ')} FROM deployments`
const readForeign = valueReader('projects.foreignAfter', nullable(number))

/** Returns the changes of a project after a number, newest first, at most `limit`. */
export function placementsAfter(db: Reader, projectId: string, after = 0, limit = -1): Placement[] {
  const sql = `${selected} WHERE projectId = ? AND placed > ? ORDER BY placed DESC LIMIT ?`
  return db.all(sql, projectId, after, limit).map(readPlacement)
}

/** Returns the last change of a directory before a number. */
export function placementBefore(
  db: Reader,
  projectId: string,
  { placed, target }: { placed: number; target: string }
): Placement | undefined {
  const sql = `${selected} WHERE projectId = ? AND placed < ? AND target = ? ORDER BY placed DESC LIMIT 1`
  return db.all(sql, projectId, placed, target).map(readPlacement)[0]
}

/** Returns the changes of a project whose earlier contents are kept in before-images. */
export function placementsWithImages(db: Reader, projectId: string): Placement[] {
  const sql = `${selected} WHERE projectId = ? AND beforeFrom LIKE ?`
  return db.all(sql, projectId, `%"${ownImages}"%`).map(readPlacement)
}

/** Stands for the before-images of a deployment in its `beforeFrom`. */
export const ownImages = 'before'
/** Says in `beforeFrom` that some contents are not kept. */
export const notKept = 'none'

/**
 * Returns the list of what a way back from a deployment needs: the deployments whose archives contain what it replaced,
 * itself included, because files that only got another mode have their contents there; and its before-images.
 */
export function wayBackOf(
  deployId: string,
  { beforeFrom, beforeBytes }: { beforeFrom: readonly string[]; beforeBytes: number }
): string[] {
  return [...new Set([deployId, ...beforeFrom, ...(beforeBytes > 0 ? [ownImages] : [])])]
}

/** Records what a way back from a deployment needs. */
export function setBeforeFrom(tx: Transaction, deployId: string, beforeFrom: readonly string[]): void {
  tx.run('UPDATE deployments SET beforeFrom = ? WHERE id = ?', JSON.stringify(beforeFrom), deployId)
}

/** Returns the number of the last change before an import changed the target without a record; null: none did. */
export function foreignAfter(db: Reader, projectId: string): number | null {
  return db.all('SELECT foreignAfter FROM projects WHERE id = ?', projectId).map(readForeign)[0] ?? null
}

/** Records that an import changed the target of a project without a record. */
export function noteForeignChange(tx: Transaction, projectId: string): void {
  const last = 'SELECT coalesce(max(placed), 0) FROM deployments WHERE projectId = projects.id'
  tx.run(`UPDATE projects SET foreignAfter = (${last}) WHERE id = ?`, projectId)
}
