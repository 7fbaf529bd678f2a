/*
 * The nodes of rollouts. A rollout of 10,000 nodes changes all of them at once: one statement writes them all, with its
 * rows as JSON.
 */
import { withoutCommand } from '../../model/deployment.js'
import { nodePhases, type NodePhase, type RolloutNode } from '../../model/rollout.js'
import type { Reader, Transaction } from '../database.js'
import { choice, flag, nullable, number, rowReader, text, valueReader, type Columns } from './columns.js'

/** What a node said about its deployment. */
export interface NodeReport {
  failedStep: string | null
  output: string | null
  tookMs: number | null
}

/** A node of a rollout as it is stored. */
export interface StoredRolloutNode extends RolloutNode, NodeReport {
  nodeName: string
}

/** Earlier versions stored commands of checks, which not everybody may read (fleet/hub/reports.ts). */
const withoutCommands: typeof text = {
  ...text,
  read: value => (typeof value === 'string' ? withoutCommand.without(value) : undefined)
}

const columns: Columns<RolloutNode> = {
  nodeId: text,
  wave: number,
  phase: choice(nodePhases),
  attempt: number,
  swapAttempt: number,
  hasBegun: flag,
  error: nullable(withoutCommands),
  updatedAt: text
}
const read = rowReader<RolloutNode>('rolloutNodes', columns)
const readStored = rowReader<StoredRolloutNode>('rolloutNodes', {
  ...columns,
  failedStep: nullable(text),
  output: nullable(text),
  tookMs: nullable(number),
  nodeName: text
})
const readPosition = valueReader('rolloutNodes', number)
const readCount = rowReader<{ phase: NodePhase; nodes: number }>('rolloutNodes', {
  phase: choice(nodePhases),
  nodes: number
})

const fields = ['wave', 'phase', 'attempt', 'swapAttempt', 'hasBegun', 'error', 'updatedAt'] as const
const given = fields.map((_, index) => `json_extract(given.value, '$[${index + 1}]')`)
const insert = `INSERT INTO rolloutNodes (rolloutId, nodeId, position, ${fields.join(', ')})
  SELECT ?, json_extract(given.value, '$[0]'), ? + given.key, ${given.join(', ')} FROM json_each(?) AS given WHERE true
  ON CONFLICT (rolloutId, nodeId) DO UPDATE SET ${fields.map(field => `${field} = excluded.${field}`).join(', ')}`

/** Adds nodes to a rollout, from a position on, or writes their state. The position of a node never changes. */
export function putRolloutNodes(
  tx: Transaction,
  rolloutId: string,
  { nodes, position }: { nodes: readonly RolloutNode[]; position: number }
): void {
  if (nodes.length === 0) return
  const rows = nodes.map(node => [
    node.nodeId,
    ...fields.map(field => (field === 'hasBegun' ? Number(node.hasBegun) : node[field]))
  ])
  tx.run(insert, rolloutId, position, JSON.stringify(rows))
}

/** Returns the position after all nodes of a rollout. */
export function nextNodePosition(db: Reader, rolloutId: string): number {
  const sql = 'SELECT coalesce(max(position) + 1, 0) FROM rolloutNodes WHERE rolloutId = ?'
  return db.all(sql, rolloutId).map(readPosition)[0] as number
}

/** Writes what a node said about its deployment. */
export function noteReport(
  tx: Transaction,
  { rolloutId, nodeId }: { rolloutId: string; nodeId: string },
  { failedStep, output, tookMs }: NodeReport
): void {
  const sql = 'UPDATE rolloutNodes SET failedStep = ?, output = ?, tookMs = ? WHERE rolloutId = ? AND nodeId = ?'
  tx.run(sql, failedStep, output, tookMs, rolloutId, nodeId)
}

/** Removes a node from a rollout. */
export function deleteRolloutNode(tx: Transaction, rolloutId: string, nodeId: string): void {
  tx.run('DELETE FROM rolloutNodes WHERE rolloutId = ? AND nodeId = ?', rolloutId, nodeId)
}

/** Returns the nodes of a rollout in the order of its waves. */
export function rolloutNodes(db: Reader, rolloutId: string): RolloutNode[] {
  return db.all('SELECT * FROM rolloutNodes WHERE rolloutId = ? ORDER BY wave, position, nodeId', rolloutId).map(read)
}

const stored = 'SELECT rolloutNodes.*, nodes.name AS nodeName FROM rolloutNodes JOIN nodes ON nodes.id = nodeId'

/** Returns the nodes of a rollout with their names and reports, by wave, then by name. */
export function storedRolloutNodes(db: Reader, rolloutId: string): StoredRolloutNode[] {
  return db.all(`${stored} WHERE rolloutId = ? ORDER BY wave, nodes.name`, rolloutId).map(readStored)
}

/** Returns one node of a rollout. */
export function storedRolloutNode(db: Reader, rolloutId: string, nodeId: string): StoredRolloutNode | undefined {
  return db.all(`${stored} WHERE rolloutId = ? AND nodeId = ?`, rolloutId, nodeId).map(readStored)[0]
}

/** Returns the number of nodes of a rollout in each phase that has any. */
export function countPhases(db: Reader, rolloutId: string): Partial<Record<NodePhase, number>> {
  const sql = 'SELECT phase, count(*) AS nodes FROM rolloutNodes WHERE rolloutId = ? GROUP BY phase'
  const rows = db.all(sql, rolloutId).map(readCount)
  return Object.fromEntries(rows.map(({ phase, nodes }) => [phase, nodes]))
}

/** Removes the outputs of the nodes on which the earlier rollouts of a project did not fail. */
export function removeOldOutputs(tx: Transaction, projectId: string, number: number): void {
  const sql = `UPDATE rolloutNodes SET output = NULL WHERE output IS NOT NULL AND phase NOT IN ('failed', 'stuck')
    AND rolloutId IN (SELECT id FROM rollouts WHERE projectId = ? AND number < ?)`
  tx.run(sql, projectId, number)
}
